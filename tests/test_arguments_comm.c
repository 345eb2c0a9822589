// As test_arguments.c, the functions of <lockstep/comm.h> and <lockstep/exchange.h>.
#include "arguments.h"

static void groups(void **state) {
    ls_context *context;
    ls_group *g, *part;
    ls_transfer t = {{0}};
    float x[1] = {0}, y[1];
    int64_t begin, end;
    int done, none = 0;
    OK(ls_context_create_alone(&context));
    NEEDS("out", ls_group_create(context, NULL));
    NEEDS("context", ls_group_create(NULL, &g));
    OK(ls_group_create(context, &g));
    NEEDS("out", ls_group_split(g, 0, 0, NULL));
    NEEDS("group", ls_group_split(NULL, 0, 0, &part));
    NEEDS("out", ls_group_select(g, &none, 1, NULL));
    NEEDS("group", ls_group_select(NULL, &none, 1, &part));
    NEEDS("ranks", ls_group_select(g, NULL, 1, &part));
    assert_true(ls_group_rank(NULL) == 0 && ls_group_size(NULL) == 0 && ls_group_describe(NULL).size == 0);
    assert_true(ls_group_host_of(NULL, 0) == -1 && ls_group_context_rank(NULL, 0) == -1);
    NEEDS("group", ls_group_send(NULL, x, 1, LS_DTYPE_F32, 0, 0));
    NEEDS("data", ls_group_send(g, NULL, 1, LS_DTYPE_F32, 0, 0));
    NEEDS("group", ls_group_recv(NULL, x, 1, LS_DTYPE_F32, 0, 0));
    NEEDS("data", ls_group_recv(g, NULL, 1, LS_DTYPE_F32, 0, 0));
    NEEDS("group", ls_group_isend(NULL, x, 1, LS_DTYPE_F32, 0, 0, &t));
    NEEDS("out", ls_group_isend(g, x, 1, LS_DTYPE_F32, 0, 0, NULL));
    NEEDS("group", ls_group_irecv(NULL, x, 1, LS_DTYPE_F32, 0, 0, &t));
    NEEDS("out", ls_group_irecv(g, x, 1, LS_DTYPE_F32, 0, 0, NULL));
    NEEDS("group", ls_group_wait(NULL, &t, 1));
    NEEDS("transfers", ls_group_wait(g, NULL, 1));
    NEEDS("group", ls_group_test(NULL, &t, 1, &done));
    NEEDS("transfers", ls_group_test(g, NULL, 1, &done));
    NEEDS("done", ls_group_test(g, &t, 1, NULL));
    NEEDS("group", ls_group_barrier(NULL));
    NEEDS("group", ls_group_broadcast(NULL, x, 1, LS_DTYPE_F32, 0));
    NEEDS("data", ls_group_broadcast(g, NULL, 1, LS_DTYPE_F32, 0));
    NEEDS("group", ls_group_gather(NULL, x, y, 1, LS_DTYPE_F32, 0));
    NEEDS("all", ls_group_gather(g, x, NULL, 1, LS_DTYPE_F32, 0));
    NEEDS("group", ls_group_all_gather(NULL, x, y, 1, LS_DTYPE_F32));
    NEEDS("mine", ls_group_all_gather(g, NULL, y, 1, LS_DTYPE_F32));
    NEEDS("group", ls_group_scatter(NULL, x, y, 1, LS_DTYPE_F32, 0));
    NEEDS("all", ls_group_scatter(g, NULL, y, 1, LS_DTYPE_F32, 0));
    NEEDS("group", ls_group_all_to_all(NULL, x, y, 1, LS_DTYPE_F32));
    NEEDS("to", ls_group_all_to_all(g, NULL, y, 1, LS_DTYPE_F32));
    NEEDS("from", ls_group_all_to_all(g, x, NULL, 1, LS_DTYPE_F32));
    NEEDS("group", ls_group_reduce(NULL, x, y, 1, LS_DTYPE_F32, LS_REDUCE_SUM, 0));
    NEEDS("out", ls_group_reduce(g, x, NULL, 1, LS_DTYPE_F32, LS_REDUCE_SUM, 0));
    NEEDS("group", ls_group_all_reduce(NULL, x, y, 1, LS_DTYPE_F32, LS_REDUCE_SUM));
    NEEDS("mine", ls_group_all_reduce(g, NULL, y, 1, LS_DTYPE_F32, LS_REDUCE_SUM));
    NEEDS("group", ls_group_reduce_scatter(NULL, x, y, 1, LS_DTYPE_F32, LS_REDUCE_SUM));
    NEEDS("out", ls_group_reduce_scatter(g, x, NULL, 1, LS_DTYPE_F32, LS_REDUCE_SUM));
    NEEDS("group", ls_group_all_reduce_leaves(NULL, x, y, 1, LS_DTYPE_F32, LS_REDUCE_SUM, 1));
    NEEDS("leaves", ls_group_all_reduce_leaves(g, NULL, y, 1, LS_DTYPE_F32, LS_REDUCE_SUM, 1));
    NEEDS("group", ls_group_deal(NULL, 1, &begin, &end));
    NEEDS("begin", ls_group_deal(g, 1, NULL, &end));
    NEEDS("end", ls_group_deal(g, 1, &begin, NULL));
    REFUSED("-1 things", ls_group_deal(g, -1, &begin, &end));
    ls_group_destroy(NULL);
    ls_group_destroy(&g);
    ls_context_destroy(&context);
}

static void exchanges(void **state) {
    ls_context *context;
    ls_exchange *x;
    ls_exchange_config config;
    float *where, values[2] = {0};
    const float *result;
    int64_t begin, end;
    const ls_exchange_parameter one[] = {{"w", 2, values, NULL, 0}};
    OK(ls_context_create_alone(&context));
    ls_exchange_config_init(NULL);
    ls_exchange_config_init(&config);
    config.parameters = one, config.parameter_count = 1, config.micro_batches = 1;
    NEEDS("out", ls_exchange_create(context, &config, NULL));
    NEEDS("context", ls_exchange_create(NULL, &config, &x));
    NEEDS("config", ls_exchange_create(context, NULL, &x));
    config.optimizer = NULL;
    NEEDS("config->optimizer", ls_exchange_create(context, &config, &x));
    config.optimizer = "none";
    OK(ls_exchange_create(context, &config, &x));
    NEEDS("exchange", ls_exchange_deal(NULL, &begin, &end));
    NEEDS("begin", ls_exchange_deal(x, NULL, &end));
    NEEDS("end", ls_exchange_deal(x, &begin, NULL));
    NEEDS("exchange", ls_exchange_ready(NULL, 0));
    NEEDS("exchange", ls_exchange_wait(NULL));
    NEEDS("exchange", ls_exchange_next(NULL, 1, 1));
    NEEDS("exchange", ls_exchange_set_rate(NULL, 1));
    NEEDS("exchange", ls_exchange_gradient(NULL, 0, &where));
    NEEDS("out", ls_exchange_gradient(x, 0, NULL));
    NEEDS("exchange", ls_exchange_result(NULL, 0, &result));
    NEEDS("out", ls_exchange_result(x, 0, NULL));
    assert_int_equal(ls_exchange_describe(NULL).buckets, 0);
    ls_exchange_destroy(NULL);
    ls_exchange_destroy(&x);
    ls_context_destroy(&context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups), cmocka_unit_test(exchanges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
