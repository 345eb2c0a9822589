// Small good files of each kind that fuzz_json spoils.
#ifndef LS_TESTS_FUZZ_JSON_SAMPLES_H
#define LS_TESTS_FUZZ_JSON_SAMPLES_H

static const char sample_record[] =
    "{\"lockstep_run\":1,\"model\":\"net\",\"parameters\":7850,\"data\":\"digits\",\"train_count\":128,\"test_count\":"
    "50,\"workers\":2,"
    "\"replicas_per_worker\":1,\"threads_per_replica\":1,\"global_batch\":128,\"micro_batch\":16,\"image\":[28,28,1],"
    "\"precision\":\"fp32\","
    "\"strategy\":\"allreduce\",\"optimizer\":\"adam\",\"seed\":42,\"options\":{\"epochs\":2,\"batch-size\":128,\"lr\":"
    "null,\"shuffle\":true,"
    "\"workers\":2,\"momentum\":0.9},\"epoch_seconds\":[0.3,0.2],\"epoch_loss\":[2.4,2.3],\"epoch_images_per_second\":["
    "339,502],\"epochs\":2,"
    "\"stopped\":null,\"stopped_after\":null,\"read_seconds\":0.7,\"step_seconds_median\":0.0002,\"epoch_seconds_"
    "median\":0.25,"
    "\"images_per_second\":421.3,\"train_loss\":2.4,\"test_loss\":2.2,\"test_accuracy\":0.08,\"total_seconds\":0.8,"
    "\"peak_rss_bytes\":75067392,"
    "\"planned_bytes\":73883872,\"weights_digest\":\"f99b0adf\",\"phases\":{\"load\":4.9e-05,\"forward\":8.4e-05,"
    "\"backward\":0.0001,"
    "\"exchange\":1.1e-05,\"wait\":2e-07,\"update\":8e-06,\"serial\":2e-05},\"epoch_phases\":{\"load\":[5e-05,4e-05],"
    "\"forward\":[0.1,0.2],"
    "\"backward\":[0.1,0.1],\"exchange\":[0.1,0.1],\"wait\":[0,0],\"update\":[0,0.1],\"serial\":[0,0]},\"epoch_phases_"
    "most\":{\"load\":[5e-05,"
    "4e-05],\"wait\":[0.1,0.2]},\"worker_phases\":[{\"load\":4e-05,\"wait\":0.1}],\"command_line\":[\"lockstep\","
    "\"train\",\"net\",\"it's\"],"
    "\"host\":\"n1\",\"hosts\":1,\"versions\":{\"lockstep\":\"0.1.0\",\"device\":\"cpu\",\"system\":\"Linux\"}}";

static const char sample_study[] =
    "{\"lockstep_study\":1,\"mode\":\"strong\",\"models\":[\"net\"],\"nodes\":[1],\"workers_per_node\":[1,2],"
    "\"repeats\":2,\"epochs\":2,"
    "\"train\":[\"--data\",\"digits\"],\"command\":[\"lockstep\",\"scale\",\"net\"],\"host\":{\"cpu\":\"A "
    "CPU\",\"cores\":2,\"memory_bytes\":25e9,"
    "\"network\":[\"eth0, 10000 "
    "Mbit/s\"],\"slurm_job\":\"7\"},\"runs\":[{\"name\":\"a\",\"model\":\"net\",\"nodes\":1,\"workers\":2,\"repeat\":1,"
    "\"batch_size\":128,\"command\":[\"lockstep\",\"train\"]},{\"name\":\"b\",\"model\":\"net\",\"nodes\":1,"
    "\"workers\":1,\"repeat\":1},"
    "{\"name\":\"c\",\"model\":\"net\",\"nodes\":2,\"workers\":4,\"repeat\":2}]}";

#define SAMPLE_SPAN(tid, ts, kind)                                                                                     \
    "{\"ph\":\"X\",\"pid\":1,\"tid\":" #tid ",\"ts\":" #ts ".5,\"dur\":8,\"cat\":\"" kind "\",\"name\":\"" kind        \
    "\"},"                                                                                                             \
    "\n"

static const char sample_trace[] =
    "{\"otherData\":{\"lockstep_trace\":1,\n\"model\":\"net\",\"data\":\"d\",\"precision\":\"fp32\",\"strategy\":\"s\",\n\"workers\":1,\"hosts\":1,"
    "\"replicas_per_worker\":1,\"epochs\":1,\"steps_per_epoch\":9,\"steps_asked\":2,\n\"recorded_epochs\":1,\"recorded_first_step\":3,"
    "\"recorded_steps\":2,\"dropped_events\":0,\"clock_error_seconds\":2e-05},\n\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"worker 0 on a\"}},\n"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"replica 0\"}},\n"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"messages\"}},\n" SAMPLE_SPAN(1, 0, "layer")
        SAMPLE_SPAN(1, 0, "forward") SAMPLE_SPAN(1, 20, "backward") SAMPLE_SPAN(2, 22, "exchange") SAMPLE_SPAN(1, 30, "wait")
            SAMPLE_SPAN(1, 40, "update") "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":60,\"cat\":\"step\",\"name\":\"step\","
                                         "\"args\":{\"step\":5}},\n"
                                         "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":1}}\n]}\n";

static const char sample_config[] =
    "{\"model\": \"net\", \"epochs\": 3, \"batch-size\": 64, \"seed\": 7, \"lr\": 0.125, \"shuffle\": false, "
    "\"no-nesterov\": true, "
    "\"precision\": \"bf16\", \"augment\": \"flip,crop\", \"record\": \"a file\"}";

#endif
