! tests/loader/mpi_fortran.F90 - an MPI program in Fortran like any other; names of checks as arguments.
!
! BY says how it knows MPI: 1 include 'mpif.h', 2 use mpi, 3 use mpi_f08. Each check prints its name and ok
! once, on rank 0, when it holds on all ranks.
#if BY == 3
#define USES use mpi_f08
#define INCLUDES
#define HANDLE(T) type(T)
#define STATUS(s) type(MPI_Status) :: s
#define STATUSES(s, n) type(MPI_Status) :: s(n)
#define FIELD(s, f) s%f
#else
#if BY == 2
#define USES use mpi
#define INCLUDES
#else
#define USES
#define INCLUDES include 'mpif.h'
#endif
#define HANDLE(T) integer
#define STATUS(s) integer :: s(MPI_STATUS_SIZE)
#define STATUSES(s, n) integer :: s(MPI_STATUS_SIZE, n)
#define FIELD(s, f) s(f)
#endif

! Functions that MPI calls, as a program of 77 writes them: beside its own data, they count.
module called
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: copies = 0, deletes = 0, errors = 0, queries = 0, freed = 0, conversions = 0
  integer, save :: combined = 0
  !$omp threadprivate(combined)
contains
#if BY == 3
  subroutine combine(a_at, b_at, length, datatype)
    USES
    type(c_ptr), value :: a_at, b_at
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(a_at, a, [length])
    call c_f_pointer(b_at, b, [length])
    if (datatype /= MPI_INTEGER) b = -1
#else
  subroutine combine(a, b, length, datatype)
    USES
    implicit none
    INCLUDES
    integer :: length, datatype
    integer :: a(length), b(length)
    if (datatype /= MPI_INTEGER) b = -1
#endif
    b = max(a, b) * 1
    combined = combined + length
  end subroutine

  subroutine copy_attribute(comm, key, extra, value_in, value_out, flag, ierror)
    USES
    implicit none
    INCLUDES
    HANDLE(MPI_Comm) :: comm
    integer :: key, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, value_in, value_out
    logical :: flag
    copies = copies + 1
    value_out = value_in + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_attribute(comm, key, value, extra, ierror)
    USES
    implicit none
    INCLUDES
    HANDLE(MPI_Comm) :: comm
    integer :: key, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    deletes = deletes + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine on_error(comm, error)
    USES
    implicit none
    INCLUDES
    HANDLE(MPI_Comm) :: comm
    integer :: error
    if (error /= MPI_SUCCESS .and. comm /= MPI_COMM_NULL) errors = errors + 1
  end subroutine

  subroutine query(extra, status, ierror)
    USES
    implicit none
    INCLUDES
    integer(kind=MPI_ADDRESS_KIND) :: extra
    STATUS(status)
    integer :: ierror
    queries = queries + int(extra)
    call MPI_Status_set_cancelled(status, .false., ierror)
    call MPI_Status_set_elements(status, MPI_INTEGER, 5, ierror)
    FIELD(status, MPI_SOURCE) = 3
    FIELD(status, MPI_TAG) = 4
  end subroutine

  subroutine release(extra, ierror)
    USES
    implicit none
    INCLUDES
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    freed = freed + int(extra)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra, complete, ierror)
    USES
    implicit none
    INCLUDES
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine
end module

module checks
  use called
  USES
  implicit none
#if BY == 1
  include 'mpif.h'
#endif
  integer :: rank, ranks, err
  ! what MPI reads and writes by address, so that the compiler expects it
  integer, target :: cell(2), mine, number
  real(8), target :: real_value
contains
  subroutine need(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    write (0, '(a,i0,2a)') 'rank ', rank, ': ', what
    call MPI_Abort(MPI_COMM_WORLD, 9, err)
  end subroutine

  subroutine pingpong
    integer, parameter :: n = 4096
    real(8) :: a(n), b(n), start
    integer :: other, i, count
    STATUS(status)
    other = ieor(rank, 1)
    if (other >= ranks) return
    start = MPI_Wtime()
    do i = 1, 50
      a = rank + i
      if (mod(rank, 2) == 0) then
        call MPI_Send(a, n, MPI_DOUBLE_PRECISION, other, i, MPI_COMM_WORLD, err)
        call MPI_Recv(b, n, MPI_DOUBLE_PRECISION, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE, err)
      else
        call MPI_Recv(b, n, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status, err)
        call need(FIELD(status, MPI_SOURCE) == other .and. FIELD(status, MPI_TAG) == i, 'status')
        call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count, err)
        call need(count == n, 'count')
        call MPI_Send(a, n, MPI_DOUBLE_PRECISION, other, i, MPI_COMM_WORLD, err)
      end if
      call need(all(b == other + i), 'data')
    end do
    call need(MPI_Wtime() >= start .and. MPI_Wtick() > 0, 'time')
  end subroutine

  subroutine in_place
    integer :: i, values(3), all_values(64)
    values = [rank, -rank, 1]
    call MPI_Allreduce(MPI_IN_PLACE, values, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, err)
    call need(all(values == [ranks * (ranks - 1) / 2, -ranks * (ranks - 1) / 2, ranks]), 'allreduce')
    all_values(rank + 1) = rank * 10
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_values, 1, MPI_INTEGER, MPI_COMM_WORLD, err)
    call need(all(all_values(1:ranks) == [(10 * i, i = 0, ranks - 1)]), 'allgather')
    values = rank
    if (rank == 0) then
      call MPI_Reduce(MPI_IN_PLACE, values, 3, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, err)
      call need(all(values == ranks - 1), 'reduce')
    else
      call MPI_Reduce(values, values, 3, MPI_INTEGER, MPI_MAX, 0, MPI_COMM_WORLD, err)
    end if
  end subroutine

  subroutine operation
    HANDLE(MPI_Op) :: op
    integer :: values(1000)
    logical :: commutes
    call MPI_Op_create(combine, .true., op, err)
    values = rank
    combined = 0
    call MPI_Allreduce(MPI_IN_PLACE, values, 1000, MPI_INTEGER, op, MPI_COMM_WORLD, err)
    call need(all(values == ranks - 1), 'allreduce')
    call need(ranks == 1 .or. combined > 0, 'not called on the thread that asked')
    call MPI_Op_commutative(op, commutes, err)
    call need(commutes, 'commutative')
    call MPI_Op_free(op, err)
    call need(op == MPI_OP_NULL, 'freed')
  end subroutine

  subroutine requests
    HANDLE(MPI_Request) :: request(4)
    integer, asynchronous :: got(2), sent(2) ! MPI uses them between the calls
    integer :: which, next, previous, i, outcount, indices(4)
    logical :: flag
    STATUSES(statuses, 4)
    next = mod(rank + 1, ranks)
    previous = mod(rank + ranks - 1, ranks)
    do i = 1, 3
      sent = [rank, i]
      got = -1
      call MPI_Irecv(got(1), 1, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, request(1), err)
      call MPI_Irecv(got(2), 1, MPI_INTEGER, previous, 2, MPI_COMM_WORLD, request(2), err)
      call MPI_Isend(sent(1), 1, MPI_INTEGER, next, 1, MPI_COMM_WORLD, request(3), err)
      call MPI_Isend(sent(2), 1, MPI_INTEGER, next, 2, MPI_COMM_WORLD, request(4), err)
      select case (i)
      case (1)
        call MPI_Waitall(4, request, MPI_STATUSES_IGNORE, err)
      case (2)
        call MPI_Waitall(4, request, statuses, err)
#if BY == 3
        call need(statuses(2)%MPI_TAG == 2, 'tag')
#else
        call need(statuses(MPI_TAG, 2) == 2, 'tag')
#endif
      case (3)
        call MPI_Waitany(4, request, which, MPI_STATUS_IGNORE, err)
        call need(which >= 1 .and. which <= 4, 'waitany')
        call MPI_Waitsome(4, request, outcount, indices, MPI_STATUSES_IGNORE, err)
        call need(outcount >= 1, 'waitsome')
        call MPI_Waitall(4, request, MPI_STATUSES_IGNORE, err)
      end select
      call need(all(got == [previous, i]), 'data')
      call MPI_Testall(4, request, flag, MPI_STATUSES_IGNORE, err)
      call need(flag .and. request(1) == MPI_REQUEST_NULL, 'testall')
    end do
  end subroutine

  subroutine types
    HANDLE(MPI_Datatype) :: column, both
    integer :: matrix(4, 5), i, j
    integer(kind=MPI_ADDRESS_KIND) :: at(2), zero
    HANDLE(MPI_Datatype) :: members(2)
    integer :: next, previous
    next = mod(rank + 1, ranks)
    previous = mod(rank + ranks - 1, ranks)
    call MPI_Type_vector(5, 1, 4, MPI_INTEGER, column, err)
    call MPI_Type_commit(column, err)
    matrix = reshape([((100 * rank + 10 * i + j, i = 1, 4), j = 1, 5)], [4, 5])
    call MPI_Sendrecv_replace(matrix(2, 1), 1, column, next, 0, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, err)
    call need(all(matrix(2, :) == [(100 * previous + 20 + j, j = 1, 5)]), 'row')
    call need(all(matrix(3, :) == [(100 * rank + 30 + j, j = 1, 5)]), 'other row')
    call MPI_Type_free(column, err)
    call MPI_Get_address(number, at(1), err)
    call MPI_Get_address(real_value, at(2), err)
    call MPI_Get_address(MPI_BOTTOM, zero, err)
    call need(zero == 0, 'bottom')
    members = [MPI_INTEGER, MPI_DOUBLE_PRECISION]
    call MPI_Type_create_struct(2, [1, 1], at, members, both, err)
    call MPI_Type_commit(both, err)
    number = 7
    real_value = 2.5d0
    if (rank /= 0) number = 0
    if (rank /= 0) real_value = 0
    call MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, err)
    call need(number == 7 .and. real_value == 2.5d0, 'struct at bottom')
    call MPI_Type_free(both, err)
  end subroutine

  subroutine attributes
    HANDLE(MPI_Comm) :: twin
    integer :: own, doubled, dropped
    integer(kind=MPI_ADDRESS_KIND) :: extra, value
    logical :: flag
    extra = 5
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, err)
    call need(flag .and. value >= 32767, 'tag_ub')
    call MPI_Comm_create_keyval(copy_attribute, delete_attribute, own, extra, err)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, doubled, extra, err)
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, dropped, extra, err)
    value = 100
    call MPI_Comm_set_attr(MPI_COMM_WORLD, own, value, err)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, doubled, value, err)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, dropped, value, err)
    call MPI_Comm_dup(MPI_COMM_WORLD, twin, err)
    call MPI_Comm_get_attr(twin, own, value, flag, err)
    call need(flag .and. value == 105 .and. copies == 1, 'copied')
    call MPI_Comm_get_attr(twin, doubled, value, flag, err)
    call need(flag .and. value == 100, 'doubled')
    call MPI_Comm_get_attr(twin, dropped, value, flag, err)
    call need(.not. flag, 'dropped')
    call MPI_Comm_free(twin, err)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, own, err)
    call need(deletes == 2, 'deleted')
    call MPI_Comm_free_keyval(own, err)
    call MPI_Comm_free_keyval(doubled, err)
    call MPI_Comm_free_keyval(dropped, err)
  end subroutine

  subroutine handlers
    HANDLE(MPI_Errhandler) :: handler
    HANDLE(MPI_Comm) :: twin
    integer :: value, code, class
    call MPI_Comm_dup(MPI_COMM_WORLD, twin, err)
    call MPI_Comm_create_errhandler(on_error, handler, err)
    call MPI_Comm_set_errhandler(twin, handler, err)
    value = 0
    call MPI_Send(value, 1, MPI_INTEGER, ranks + 3, 0, twin, err)
    call need(errors == 1, 'own')
    call MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN, err)
    call MPI_Send(value, 1, MPI_INTEGER, ranks + 3, 0, twin, err)
    code = err
    call need(err /= MPI_SUCCESS .and. errors == 1, 'returned')
#if BY == 1
    ! code and result in one variable, as programs do it where no interface forbids it
    call MPI_Error_class(code, class, code)
#else
    call MPI_Error_class(code, class, err)
#endif
    call need(class == MPI_ERR_RANK, 'class')
    call MPI_Errhandler_free(handler, err)
    call MPI_Comm_free(twin, err)
  end subroutine

  subroutine strings
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=MPI_MAX_PROCESSOR_NAME) :: machine
    character(len=MPI_MAX_ERROR_STRING) :: text
    character(len=12) :: value
    HANDLE(MPI_Info) :: info
    integer :: length
    logical :: flag
    call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, err)
    call need(name == 'MPI_COMM_WORLD' .and. length == 14, 'name')
    call MPI_Get_processor_name(machine, length, err)
    call need(len_trim(machine) == length .and. length > 0, 'processor')
    call MPI_Error_string(MPI_ERR_TRUNCATE, text, length, err)
    call need(index(text, 'runcate') + index(text, 'TRUNCATE') > 0 .and. text(length + 1:) == ' ', 'error string')
    call MPI_Info_create(info, err)
    call MPI_Info_set(info, 'key  ', '  a value ', err)
    call MPI_Info_get(info, 'key', 12, value, flag, err)
    call need(flag .and. value == 'a value', 'info')
    call MPI_Info_get(info, 'none', 12, value, flag, err)
    call need(.not. flag, 'info without')
    call MPI_Info_free(info, err)
  end subroutine

  subroutine generalized
    HANDLE(MPI_Request) :: request
    STATUS(status)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: count
    extra = 1
    call MPI_Grequest_start(query, release, cancel, extra, request, err)
    call MPI_Grequest_complete(request, err)
    call MPI_Wait(request, status, err)
    call MPI_Get_count(status, MPI_INTEGER, count, err)
    call need(FIELD(status, MPI_SOURCE) == 3 .and. FIELD(status, MPI_TAG) == 4 .and. count == 5, 'status')
    call need(queries == 1 .and. freed == 1, 'functions')
  end subroutine

  subroutine graph
    HANDLE(MPI_Comm) :: around
    integer :: next(1), previous(1), in, out, got(1), none(1), values(1)
    logical :: weighted
    next = mod(rank + 1, ranks)
    previous = mod(rank + ranks - 1, ranks)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, previous, MPI_UNWEIGHTED, 1, next, MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., around, err)
    call MPI_Dist_graph_neighbors_count(around, in, out, weighted, err)
    call need(in == 1 .and. out == 1 .and. .not. weighted, 'count')
    call MPI_Dist_graph_neighbors(around, 1, none, MPI_UNWEIGHTED, 1, got, MPI_UNWEIGHTED, err)
    call need(none(1) == previous(1) .and. got(1) == next(1), 'neighbors')
    values = rank
    call MPI_Neighbor_allgather(values, 1, MPI_INTEGER, got, 1, MPI_INTEGER, around, err)
    call need(got(1) == previous(1), 'allgather')
    call MPI_Comm_free(around, err)
  end subroutine

  subroutine window
    HANDLE(MPI_Win) :: win
    integer :: size_of
    integer(kind=MPI_ADDRESS_KIND) :: bytes, shift
    size_of = 4
#if BY != 1
    call MPI_Sizeof(mine, size_of, err) ! only the modules have it in all libraries
#endif
    call need(size_of == 4, 'sizeof')
    bytes = 8
    shift = 1
    cell = -1
    mine = rank
    call MPI_Win_create(cell, bytes, size_of, MPI_INFO_NULL, MPI_COMM_WORLD, win, err)
    call MPI_Win_fence(0, win, err)
    call MPI_Put(mine, 1, MPI_INTEGER, mod(rank + 1, ranks), shift, 1, MPI_INTEGER, win, err)
    call MPI_Win_fence(0, win, err)
    call need(all(cell == [-1, mod(rank + ranks - 1, ranks)]), 'put')
    call MPI_Win_free(win, err)
  end subroutine

  subroutine exchange
    HANDLE(MPI_Datatype) :: types_sent(64), types_got(64)
    HANDLE(MPI_Request) :: request
    integer :: sent(64), got(64), counts(64), at(64), i
    types_sent = MPI_INTEGER
    types_got = MPI_INTEGER
    counts = 1
    at = [(4 * i, i = 0, 63)]
    sent = [(100 * rank + i, i = 0, 63)]
    call MPI_Alltoallw(sent, counts, at, types_sent, got, counts, at, types_got, MPI_COMM_WORLD, err)
    call need(all(got(1:ranks) == [(100 * i + rank, i = 0, ranks - 1)]), 'alltoallw')
    got = sent
    call MPI_Ialltoallw(MPI_IN_PLACE, counts, at, types_sent, got, counts, at, types_got, MPI_COMM_WORLD, request, err)
    call MPI_Wait(request, MPI_STATUS_IGNORE, err)
    call need(all(got(1:ranks) == [(100 * i + rank, i = 0, ranks - 1)]), 'in place')
  end subroutine

  subroutine file
    HANDLE(MPI_File) :: f
    integer(kind=MPI_OFFSET_KIND) :: at
    integer :: values(4), got(4)
    character(len=200) :: path
    call get_environment_variable('TMPDIR', path)
    if (path == '') path = '/tmp'
    path = trim(path) // '/mpi_fortran.data'
    call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
                       MPI_INFO_NULL, f, err)
    call need(err == MPI_SUCCESS, 'open')
    at = 0
    call MPI_File_set_view(f, at, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, err)
    values = [rank, 1, 2, 3]
    at = 4 * rank
    call MPI_File_write_at_all(f, at, values, 4, MPI_INTEGER, MPI_STATUS_IGNORE, err)
    call MPI_Barrier(MPI_COMM_WORLD, err)
    call MPI_File_read_at_all(f, at, got, 4, MPI_INTEGER, MPI_STATUS_IGNORE, err)
    call need(all(got == values), 'data')
    call MPI_File_close(f, err)
  end subroutine

  ! Heat in a rod, ends at 0 and 1: the solution is a straight line.
  subroutine jacobi
    integer, parameter :: n = 2
    real(8) :: u(0:n + 1), v(n), change
    integer :: i, step, left, right
    left = merge(MPI_PROC_NULL, rank - 1, rank == 0)
    right = merge(MPI_PROC_NULL, rank + 1, rank == ranks - 1)
    u = 0
    if (rank == ranks - 1) u(n + 1) = 1
    do step = 1, 2000
      call MPI_Sendrecv(u(n), 1, MPI_DOUBLE_PRECISION, right, 0, u(0), 1, MPI_DOUBLE_PRECISION, left, 0, &
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE, err)
      call MPI_Sendrecv(u(1), 1, MPI_DOUBLE_PRECISION, left, 1, u(n + 1), 1, MPI_DOUBLE_PRECISION, right, 1, &
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE, err)
      v = (u(0:n - 1) + u(2:n + 1)) / 2
      change = maxval(abs(v - u(1:n)))
      u(1:n) = v
      call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, err)
      if (change < 1d-7) exit
    end do
    v = [(real(rank * n + i, 8) / (ranks * n + 1), i = 1, n)]
    call need(maxval(abs(u(1:n) - v)) < 1d-4, 'solution')
  end subroutine
end module

program mpi_fortran
  use checks
  implicit none
  character(len=20) :: name
  integer :: i, provided
  call MPI_Init_thread(MPI_THREAD_SERIALIZED, provided, err)
  if (err /= MPI_SUCCESS) stop 3
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, err)
  do i = 1, command_argument_count()
    call get_command_argument(i, name)
    select case (name)
    case ('pingpong');    call pingpong
    case ('in_place');    call in_place
    case ('operation');   call operation
    case ('requests');    call requests
    case ('types');       call types
    case ('attributes');  call attributes
    case ('handlers');    call handlers
    case ('strings');     call strings
    case ('generalized'); call generalized
    case ('graph');       call graph
    case ('window');      call window
    case ('exchange');    call exchange
    case ('file');        call file
    case ('jacobi');      call jacobi
    case default;         call need(.false., 'no such check: ' // name)
    end select
    call MPI_Barrier(MPI_COMM_WORLD, err)
    if (rank == 0) print '(2a)', trim(name), ' ok'
  end do
  call MPI_Finalize(err)
end program
