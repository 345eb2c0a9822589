# On two hosts made of namespaces: TCP over a link of 1 Gbit/s, and a real Slurm. Skipped where root, Slurm or the like are
# missing; tools/install-deps --all installs what they use.
if(TARGET lockstep_program AND LS_WITH_MPI AND LS_MPI_IS_OPEN_MPI)
  foreach(name slurm two_hosts)
    add_test(NAME cluster.${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cluster/${name}.sh $<TARGET_FILE:lockstep_program>)
    set_tests_properties(cluster.${name} PROPERTIES LABELS "cluster;slow" TIMEOUT 900 SKIP_RETURN_CODE 77)
  endforeach()
  set_tests_properties(cluster.two_hosts PROPERTIES PROCESSORS 4)  # what the daemons of Slurm take their time for is no computing
endif()
if(TARGET lockstep_program)
  add_test(NAME cluster.cut_link COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cluster/cut_link.sh $<TARGET_FILE:lockstep_program>)
  set_tests_properties(cluster.cut_link PROPERTIES LABELS cluster TIMEOUT 180 SKIP_RETURN_CODE 77)
  add_test(NAME cli.slurm COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cluster/script.sh $<TARGET_FILE:lockstep_program>)
  set_tests_properties(cli.slurm PROPERTIES LABELS cli TIMEOUT 180)
endif()
