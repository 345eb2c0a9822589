! train.c in Fortran.
program train
  use lockstep
  implicit none
  type(c_ptr) :: workers, data, net, trainer
  type(ls_train_config) :: config
  type(ls_train_result) :: result
  type(ls_shape) :: shape
  character(kind=c_char, len=4), target :: device = "ref" // c_null_char
  character(len=32) :: version
  integer :: i

  write (version, "(i0, '.', i0, '.', i0)") LS_VERSION_MAJOR, LS_VERSION_MINOR, LS_VERSION_PATCH
  if (version /= ls_text(ls_version())) error stop "ls_version"
  call check(ls_context_create_alone(workers))
  call check(ls_dataset_open(workers, "digits" // c_null_char, data))
  shape%ndim = 3
  shape%dim(1:3) = [28, 28, 1]
  call check(ls_model_create("mnist-mlp" // c_null_char, shape, 10, net))
  call ls_train_config_init(config)
  config%epochs = 1
  config%limit_train = 256
  config%evaluate = 0
  config%device = c_loc(device)
  call check(ls_trainer_create(workers, net, data, config, trainer))
  call check(ls_trainer_fit(trainer))
  call check(ls_trainer_result(trainer, result))
  print "(65a)", "weights ", (result%weights_digest(i), i = 1, 64)
  call ls_trainer_destroy(trainer)
  call ls_graph_destroy(net)
  call ls_dataset_destroy(data)
  call ls_context_destroy(workers)
contains
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == LS_STATUS_OK) return
    print "(2a)", "train: ", ls_text(ls_error_message())
    error stop
  end subroutine
end program
