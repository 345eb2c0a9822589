#include "data/formats/hdf5_elsewhere.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/hdf5_library.h"

enum {
    DEEPEST = 4,       // views of views
    FOUND = 2 * 4096,  // of the path of a file beside another
};

ls_status ls__hdf5_failed(const char *path, const char *name) {
    char why[128];
    ls__hdf5_why(why, sizeof why);
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: cannot read %s: HDF5 says \"%s\"; copy or make it again", path, name, why);
}

// Closing clears the library's words of what failed before, which are wanted.
static void close_properties(hid_t list) {
    hid_t words = H5Eget_current_stack();
    H5Pclose(list);
    H5Eset_current_stack(words);
}

// Without the locks that parallel file systems refuse; the library's words go to sentences alone.
hid_t ls__hdf5_open_file(const char *path) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 10, 7)
    H5Pset_file_locking(access, 0, 1);
#endif
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    close_properties(access);
    return file;
}

// --- where files are -------------------------------------------------------------------------------------------------

typedef struct search {
    char found[FOUND];  // the path that was tried last
    hid_t file;         // below 0: none was opened
    int odd;            // 1: what is there is a pipe or a device, whose opening would wait for who writes there
} search;

// Whether the search ends here.
static int try_path(search *s, const char *folder, const char *name) {
    struct stat there;
    int n = snprintf(s->found, sizeof s->found, "%s%s%s", folder, *folder ? "/" : "", name);
    if (n >= (int)sizeof s->found || stat(s->found, &there) != 0 || S_ISDIR(there.st_mode)) return 0;
    s->odd = !S_ISREG(there.st_mode);
    if (!s->odd) s->file = ls__hdf5_open_file(s->found);
    return s->odd || s->file >= 0;
}

// What a variable of the environment may begin with: the folder of the file that names another.
static void with_origin(const char *prefix, const char *origin, char out[FOUND]) {
    static const char word[] = "${ORIGIN}";
    size_t n = sizeof word - 1;
    int is = strncmp(prefix, word, n) == 0;
    snprintf(out, FOUND, "%s%s", is ? origin : "", prefix + (is ? n : 0));
}

// The file `where` that the one opened by `path` names, as the library looks for it: where an absolute path says, else for its last part; in the folders of the
// variable; beside the file; in the working directory; beside what the file is a symbolic link to.
static void look_for(const char *path, const char *where, const char *variable, search *s) {
    char folder[PATH_MAX], prefix[FOUND];
    const char *folders = getenv(variable), *beside;
    s->file = -1;
    s->odd = 0;
    if (where[0] == '/' && try_path(s, "", where)) return;
    if (where[0] == '/') where = strrchr(where, '/') + 1;
    for (const char *p = folders; p && *p;) {
        size_t n = strcspn(p, ":");
        snprintf(prefix, sizeof prefix, "%.*s", (int)(n < 4096 ? n : 4096), p);
        if (n && try_path(s, prefix, where)) return;
        p += n + (p[n] == ':');
    }
    snprintf(folder, sizeof folder, "%s", path);
    beside = dirname(folder);
    if (folders && *folders && strcmp(variable, "HDF5_VDS_PREFIX") == 0) {  // as a whole, too
        with_origin(folders, beside, prefix);
        if (try_path(s, prefix, where)) return;
    }
    if (try_path(s, beside, where) || try_path(s, "", where)) return;
    if (realpath(path, folder)) (void)try_path(s, dirname(folder), where);
}

// --- links -----------------------------------------------------------------------------------------------------------

typedef struct followed {
    search last;
} followed;

// The library is about to follow a link to another file.
static herr_t before_file(const char *path, const char *group, const char *where, const char *object, unsigned *flags,
                          hid_t access, void *user) {
    followed *f = user;
    (void)group, (void)object, (void)flags, (void)access;
    look_for(path, where, "HDF5_EXT_PREFIX", &f->last);
    if (f->last.file >= 0) H5Fclose(f->last.file);
    return f->last.odd ? -1 : 0;
}

static ls_status no_file(const ls__hdf5_place *at, const char *what) {
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "%s: %s lies in another file, and %s is a pipe or a device, and no file: put the file there, or make the data "
        "set again",
        at->path, at->name, what);
}

// One group after the other, as a path is there only as far as all of it is.
static int path_exists(hid_t file, const char *set, hid_t access) {
    char path[1100];
    for (const char *slash = strchr(set + (*set != 0), '/');; slash = strchr(slash + 1, '/')) {
        int n = slash ? (int)(slash - set) : (int)strlen(set);
        if (n >= (int)sizeof path) return 0;
        snprintf(path, sizeof path, "%.*s", n, set);
        if (H5Lexists(file, path, access) <= 0) return 0;
        if (!slash) break;
    }
    hid_t object = H5Oopen(file, set, access);
    int is_set = object >= 0 && H5Iget_type(object) == H5I_DATASET;
    if (object >= 0) H5Oclose(object);
    return is_set;
}

ls_status ls__hdf5_exists(const ls__hdf5_place *at, const char *set, int *there) {
    followed f = {.last.odd = 0};
    hid_t access = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(access, before_file, &f);
    *there = path_exists(at->file, set, access);
    H5Pclose(access);
    return f.last.odd ? no_file(at, f.last.found) : LS_OK;
}

// Of a view whose parts are numbered files those before the first that is missing.
ls_status ls__hdf5_open_set(const ls__hdf5_place *at, hid_t *out) {
    followed f = {.last.odd = 0};
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_elink_cb(access, before_file, &f);
#if H5_VERSION_GE(1, 10, 0)
    H5Pset_virtual_view(access, H5D_VDS_FIRST_MISSING);
#endif
    *out = H5Dopen2(at->file, at->name, access);
    close_properties(access);
    if (*out >= 0) return LS_OK;
    return f.last.odd ? no_file(at, f.last.found) : ls__hdf5_failed(at->path, at->name);
}

// --- raw values ------------------------------------------------------------------------------------------------------

// What the library cannot find there it takes for zeros, without a word.
static ls_status missing(const ls__hdf5_place *at, const char *where, const char *set) {
    return LS_FAIL(
        LS_STATUS_NOT_FOUND,
        "%s: %s lies in another file, and %s%s%s is not there, or shorter than it should be: put it there, or "
        "make the data set again",
        at->path, at->name, where, *set ? ": " : "", set);
}

static double bytes_of(hid_t set) {
    hid_t space = H5Dget_space(set), type = H5Dget_type(set);
    double bytes = (double)H5Sget_simple_extent_npoints(space) * (double)H5Tget_size(type);
    H5Tclose(type);
    H5Sclose(space);
    return bytes;
}

// Where the library looks for a file of raw values: in the working directory, or where the variable says.
static void raw_path(const char *opened, const char *file, char out[FOUND]) {
    char folder[PATH_MAX], prefix[FOUND];
    const char *folders = getenv("HDF5_EXTFILE_PREFIX");
    snprintf(out, FOUND, "%s", file);
    if (file[0] == '/' || !folders || !*folders) return;
    snprintf(folder, sizeof folder, "%s", opened);
    with_origin(folders, dirname(folder), prefix);
    snprintf(out, FOUND, "%.4096s/%.4000s", prefix, file);
}

// Files, of which each has so many bytes of the data set from a place on, the last one mostly what is left.
static ls_status check_raw(const ls__hdf5_place *at, hid_t set, hid_t how) {
    int count = H5Pget_external_count(how);
    double left = count > 0 ? bytes_of(set) : 0;
    for (int i = 0; i < count && left > 0; i++) {
        char file[1024] = "", found[FOUND];
        off_t from = 0;
        hsize_t size = 0;
        struct stat there;
        if (H5Pget_external(how, (unsigned)i, sizeof file - 1, file, &from, &size) < 0)
            return ls__hdf5_failed(at->path, at->name);
        raw_path(at->opened, file, found);
        double wanted = size == H5F_UNLIMITED || (double)size > left ? left : (double)size;
        int here = stat(found, &there) == 0 && from >= 0;
        if (here && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) return no_file(at, found);
        if (!here || !S_ISREG(there.st_mode) || (double)there.st_size < (double)from + wanted)
            return missing(at, found, "");
        left -= wanted;
    }
    return LS_OK;
}

// --- views -----------------------------------------------------------------------------------------------------------

#if H5_VERSION_GE(1, 10, 0)
static ls_status check_view(const ls__hdf5_place *at, hid_t set, int depth);

// One of the data sets that a view is of: its file, "." for the view's own, its name there, and which of its values are wanted, and for which of the view's.
typedef struct part {
    char file[4096], set[1024];
    hid_t wanted, mine;
} part;

// What is wanted without an end is as much as there is.
static ls_status check_extent(const ls__hdf5_place *at, const part *p, hid_t source) {
    hsize_t from[H5S_MAX_RANK], to[H5S_MAX_RANK], dim[H5S_MAX_RANK];
    hid_t space = H5Dget_space(source);
    int ndim = H5Sget_simple_extent_ndims(space), wanted = H5Sget_simple_extent_ndims(p->wanted), whole;
    double there = (double)H5Sget_simple_extent_npoints(space), asked = (double)H5Sget_select_npoints(p->mine);
    int fine = ndim >= 0 && ndim <= H5S_MAX_RANK && H5Sget_simple_extent_dims(space, dim, NULL) == ndim;
    H5Sclose(space);
    whole = H5Sget_select_type(p->wanted) == H5S_SEL_ALL;
    if (fine && whole && asked >= 0 && there != asked)  // below 0: of numbered ones, without an end
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: %s is a view of all of %s: %s, of %.0f values, and that has %.0f: write all of it, or make "
                       "the view again",
                       at->path, at->name, p->file, p->set, asked, there);
    if (!fine || whole || wanted != ndim || H5Sget_select_bounds(p->wanted, from, to) < 0)
        return fine && (whole || wanted == ndim) ? LS_OK : missing(at, p->file, p->set);
    for (int d = 0; d < ndim; d++)
        if (to[d] != H5S_UNLIMITED && to[d] >= dim[d])
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s: %s is a view of %s: %s, wants %llu of its dimension %d, and there are %llu: write all "
                           "of it, or make the view again",
                           at->path, at->name, p->file, p->set, (unsigned long long)to[d] + 1, d,
                           (unsigned long long)dim[d]);
    return LS_OK;
}

static ls_status check_source(const ls__hdf5_place *at, const part *p, int depth, int *there) {
    search s;
    ls__hdf5_place source = *at;
    int itself = strcmp(p->file, ".") == 0;
    *there = itself && at->file < 0;  // in a file that only a link leads to
    if (*there) return LS_OK;
    if (!itself) {
        look_for(at->opened, p->file, "HDF5_VDS_PREFIX", &s);
        if (s.odd) return no_file(at, s.found);
        if (s.file < 0) return LS_OK;
        source.file = s.file;
        source.opened = s.found;
    }
    ls_status status = ls__hdf5_exists(&source, p->set, there);
    hid_t inner = status == LS_OK && *there ? H5Dopen2(source.file, p->set, H5P_DEFAULT) : -1;
    if (inner < 0) *there = 0;
    if (inner >= 0) {
        status = check_view(&source, inner, depth + 1);
        if (status == LS_OK) status = check_extent(at, p, inner);
        H5Dclose(inner);
    }
    if (!itself) H5Fclose(source.file);
    return status;
}

// A name that has a number in it ("%b"; "%%" is a percent sign), for one of them. *numbered: whether it has.
static void name_of(const char *pattern, long long block, char *out, size_t size, int *numbered) {
    size_t n = 0;
    out[0] = 0;
    for (const char *p = pattern; *p && n + 1 < size; p++) {
        int is_number = p[0] == '%' && p[1] == 'b', two = is_number || (p[0] == '%' && p[1] == '%');
        *numbered |= is_number;
        int more = is_number ? snprintf(out + n, size - n, "%lld", block) : snprintf(out + n, size - n, "%c", *p);
        n += (size_t)more;
        p += two;
    }
}

// Of numbered ones the first has to be there, and all before one that is missing are looked at.
static ls_status check_part(const ls__hdf5_place *at, const part *pattern, int depth) {
    part p = *pattern;
    int numbered = 0, there = 1;
    for (long long block = 0; there && (block == 0 || numbered); block++) {
        name_of(pattern->file, block, p.file, sizeof p.file, &numbered);
        name_of(pattern->set, block, p.set, sizeof p.set, &numbered);
        LS_TRY(check_source(at, &p, depth, &there));
        if (!there && block == 0) return missing(at, strcmp(p.file, ".") == 0 ? at->opened : p.file, p.set);
    }
    return LS_OK;
}

static ls_status check_parts(const ls__hdf5_place *at, hid_t how, int depth) {
    size_t count = 0;
    ls_status status = LS_OK;
    if (depth > DEEPEST || H5Pget_virtual_count(how, &count) < 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s is a view of more than %d views of one another, or damaged",
                       at->path, at->name, DEEPEST);
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        part p = {.wanted = H5Pget_virtual_srcspace(how, i), .mine = H5Pget_virtual_vspace(how, i)};
        if (p.wanted < 0 || p.mine < 0 || H5Pget_virtual_filename(how, i, p.file, sizeof p.file) < 0 ||
            H5Pget_virtual_dsetname(how, i, p.set, sizeof p.set) < 0)
            status = ls__hdf5_failed(at->path, at->name);
        else
            status = check_part(at, &p, depth);
        if (p.wanted >= 0) H5Sclose(p.wanted);
        if (p.mine >= 0) H5Sclose(p.mine);
    }
    return status;
}
#endif

// In its own file, which a link may have led to: from there the library looks for others.
static ls_status check_view(const ls__hdf5_place *at, hid_t set, int depth) {
    char opened[PATH_MAX];
    ls__hdf5_place its = *at;
    int linked = H5Fget_name(set, opened, sizeof opened) > 0 && strcmp(opened, at->opened) != 0;
    if (linked) its.opened = opened, its.file = -1;  // the library has it open, in its own way
    hid_t how = H5Dget_create_plist(set);
    ls_status status = check_raw(&its, set, how);
#if H5_VERSION_GE(1, 10, 0)
    if (status == LS_OK && H5Pget_layout(how) == H5D_VIRTUAL) status = check_parts(&its, how, depth);
#else
    (void)depth;
#endif
    H5Pclose(how);
    return status;
}

ls_status ls__hdf5_check_elsewhere(const ls__hdf5_place *at, hid_t set) { return check_view(at, set, 0); }
