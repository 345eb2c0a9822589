! A simulation in Fortran whose workers fit a surrogate together: the program computes gradients, Lockstep adds them up and updates the
! coefficients, with the same bits on any number of workers. Alone, or under mpirun or srun: mpirun -n 4 surrogate
!
! What the simulation gives here is f(x) = exp(-x*x) sin(3x); what is fitted are coefficients of Chebyshev's polynomials.
program surrogate
  use lockstep
  implicit none
  integer, parameter :: terms = 12, micro_batches = 8, samples = 16, steps = 400
  real(c_float), target :: weights(terms), gradient(terms)
  character(kind=c_char, len=5), target :: optimizer = "adam" // c_null_char
  type(ls_exchange_parameter), target :: parameter
  type(ls_exchange_config) :: config
  type(c_ptr) :: workers, exchange
  integer(c_int64_t) :: first, last, m
  integer :: step, i
  real(c_double) :: x, worst

  call check(ls_context_create(workers))
  weights = 0
  parameter%count = terms
  parameter%weights = c_loc(weights)
  parameter%gradient = c_loc(gradient)
  call ls_exchange_config_init(config)
  config%parameters = c_loc(parameter)
  config%parameter_count = 1
  config%micro_batches = micro_batches
  config%samples = micro_batches * samples  ! gradients are sums over samples
  config%optimizer = c_loc(optimizer)
  config%lr = 0.03d0
  call check(ls_exchange_create(workers, config, exchange))

  do step = 1, steps
    call check(ls_exchange_deal(exchange, first, last))
    do m = first, last - 1  ! C counts from 0
      gradient = 0
      do i = 1, samples
        x = point(step, int(m) * samples + i)
        associate (basis => chebyshev(x))
          gradient = gradient + real(2 * (dot_product(weights, basis) - f(x)) * basis, c_float)
        end associate
      end do
      call check(ls_exchange_ready(exchange, 0))
    end do
    call check(ls_exchange_wait(exchange))
  end do

  worst = 0
  do i = -100, 100
    x = i / 100d0
    worst = max(worst, abs(dot_product(weights, chebyshev(x)) - f(x)))
  end do
  if (ls_context_rank(workers) == 0) then
    print "(a, i0, a, f0.4)", "workers ", ls_context_size(workers), ": largest error 0", worst
    print "(a, *(z8.8))", "weights ", weights
  end if
  call ls_exchange_destroy(exchange)
  call ls_context_destroy(workers)

contains
  real(c_double) function f(x)
    real(c_double), intent(in) :: x
    f = exp(-x * x) * sin(3 * x)
  end function

  ! A sample's place depends on its number alone, not on the worker that computes it.
  real(c_double) function point(step, sample)
    integer, intent(in) :: step, sample
    point = 2 * modulo((step * micro_batches * samples + sample) * 0.6180339887498949d0, 1d0) - 1
  end function

  function chebyshev(x) result(t)
    real(c_double), intent(in) :: x
    real(c_double) :: t(terms)
    integer :: k
    t(1) = 1
    t(2) = x
    do k = 3, terms
      t(k) = 2 * x * t(k - 1) - t(k - 2)
    end do
  end function

  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status == LS_STATUS_OK) return
    print "(2a)", "surrogate: ", ls_text(ls_error_message())
    error stop
  end subroutine
end program
