// What programs that look before they train ask of devices and of MPI.
#include <lockstep/machine.h>

#include "base/error.h"
#include "comm/comm.h"
#include "device/device.h"

ls_status ls_machine_kernels(const char *name, char *text, size_t size) {
    LS_NEED(name, "device");
    LS_NEED(text, "text");
    ls_device *device;
    LS_TRY(ls_device_create(name, NULL, &device));
    device->ops->describe(device, text, size);
    ls_device_destroy(&device);
    return LS_OK;
}

ls_status ls_machine_computes(const char *name, ls_dtype precision) {
    LS_NEED(name, "device");
    ls_device *device;
    LS_TRY(ls_device_create(name, NULL, &device));
    ls_status status = device->ops->supports(device, precision);
    ls_device_destroy(&device);
    return status;
}

void ls_machine_mpi(char *text, size_t size) {
    if (!text || !size) return;
    ls_comm_library(text, size);
}

const char *ls_machine_mpi_thread_level(void) { return ls_comm_thread_level(); }
int64_t ls_machine_mpi_bytes(void) { return ls_comm_library_bytes(); }
