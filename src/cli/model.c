// A network for the commands that have no dataset to take the shape of its input from.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

#define MOST_SIDE 65536

const char *cli_input_text(ls_shape shape, char text[LS_INPUT_TEXT]) {
    int n = 0;
    text[0] = 0;
    for (int i = 0; i < shape.ndim && n < LS_INPUT_TEXT; i++)
        n += snprintf(text + n, (size_t)(LS_INPUT_TEXT - n), "%s%lld", i ? "x" : "", (long long)shape.dim[i]);
    return text;
}

// "224x224x3", without blanks or signs.
static ls_status read_shape(const char *text, ls_shape *out) {
    *out = (ls_shape){0};
    for (const char *p = text;; p++) {
        char *end;
        long n = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : 0;
        if (n < 1 || n > MOST_SIDE || (*end && *end != 'x') || out->ndim == LS_MAX_DIMS - 1)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "--input-shape: expected HxWxC, whole numbers from 1 to %d as in 224x224x3 (of sequences "
                           "their length, of clips and volumes DxHxWxC), "
                           "got '%s'",
                           MOST_SIDE, text);
        out->dim[out->ndim++] = n;
        p = end;
        if (!*p) return LS_OK;
    }
}

static ls_shape default_input(const char *name) {
    ls_model_info m;
    for (int i = 0; (m = ls_model_at(i)).name; i++)
        if (strcmp(m.name, name) == 0) return m.input;
    ls_graph *graph;  // a file's says it itself
    ls_shape shape = {0};
    if (ls_model_create(name, shape, 0, &graph) == LS_OK) shape = ls_graph_input_at(graph, 0).shape;
    ls_graph_destroy(&graph);
    return shape;
}

ls_status cli_model_input(const char *name, const char *input_shape, ls_shape *out) {
    *out = default_input(name);
    return input_shape ? read_shape(input_shape, out) : LS_OK;
}

ls_status cli_model_shape(const char *name, const char *input_shape, int image_size, ls_shape *out) {
    *out = (ls_shape){0};
    if (input_shape && image_size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--input-shape and --image-size say the same thing: give one of them");
    if (input_shape) LS_TRY(read_shape(input_shape, out));
    if (image_size) {
        *out = default_input(name);  // for its channels; of no shape where the name is wrong, which is said next
        int first = out->ndim == LS_MAX_DIMS - 1;  // of clips and volumes the frames
        out->dim[first] = out->dim[first + 1] = image_size;
    }
    return LS_OK;
}

ls_status cli_model_build(const char *name, const ls_model_config *config, const char *input_shape, int image_size,
                          ls_graph **out) {
    ls_model_config c = *config;
    *out = NULL;
    ls_shape asked;
    LS_TRY(cli_model_shape(name, input_shape, image_size, &asked));
    if (input_shape || image_size) c.input = asked;
    return ls_model_build(name, &c, out);
}

ls_status cli_model_check(const char *name, const ls_model_config *config) {
    ls_graph *graph;
    LS_TRY(ls_model_build(name, config, &graph));
    ls_status status = ls_graph_check_classifier(graph);
    ls_graph_destroy(&graph);
    return status;
}
