// "roles": sentences (phrases.h) of up to 64 characters, padded with zeros, and which of the ten animals something is done to. The order of
// words decides: both animals are in each sentence, in either place.
#include <string.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data/formats/phrases.h"

#define TRAIN     20000
#define TEST      4000
#define ROLES_KEY 0x526f6c6573u  // the dataset's fixed seed; another one is another dataset
#define ASCII     128

static void draw_sample(uint32_t sample, uint8_t *tokens, uint8_t *label) {
    draws d = draws_of(ROLES_KEY, sample);
    char text[PHRASE_MOST];
    int object, length = ls__draw_phrase(&d, text, &object);
    memset(tokens, 0, PHRASE_MOST);
    memcpy(tokens, text, (size_t)length);
    *label = (uint8_t)object;
}

static ls_status roles_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    const int64_t total = TRAIN + TEST;
    const ls_field fields[] = {{"tokens", LS_SHAPE(PHRASE_MOST), LS_DTYPE_U8, ASCII},
                               {"label", {0}, LS_DTYPE_U8, PHRASE_ANIMALS}};
    void *memory = NULL;
    LS_TRY(host->agree(host->self, host->alloc(host->self, total * (PHRASE_MOST + 1), &memory)));
    uint8_t *tokens = memory, *labels = tokens + total * PHRASE_MOST;
    int64_t first = total * host->rank / host->size, past = total * (host->rank + 1) / host->size;
    for (int64_t i = first; i < past; i++) draw_sample((uint32_t)i, tokens + i * PHRASE_MOST, labels + i);
    LS_TRY(host->barrier(host->self));
    ls_arrays train_set = {TRAIN, {tokens, labels}};
    ls_arrays test_set = {TEST, {tokens + TRAIN * PHRASE_MOST, labels + TRAIN}};
    return ls_data_set_fields(host, out, fields, 2, &train_set, &test_set);
}

const ls_format ls_format_roles = {
    .name = "roles",
    .help = "sentences about two animals, drawn by the library itself: which one something is done to; 20,000 + 4,000",
    .argument = NULL,
    .classes = ls__phrase_animals,
    .open = roles_open,
};
