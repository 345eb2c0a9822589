// JSON as text.
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

// In place: real numbers of 17 digits, the fewest that read back as the same double. Returns `json`,
// which may be NULL: for what json_dumps gives with JSON_REAL_PRECISION(17).
char *ls_json_shorten(char *json);

#endif
