// Depthwise convolution: a convolution of as many groups as there are channels. Its kernel, (KH, KW, C, M), lies in memory as that of the
// groups, (KH, KW, 1, C * M), does.
#include "device/cpu/cpu.h"

ls_kernel_spec ls__cpu_depthwise_as_conv2d(const ls_kernel_spec *spec) {
    const ls_depthwise_conv2d_attrs *d = LS_ATTRS(ls_depthwise_conv2d_attrs, &spec->attrs);
    ls_kernel_spec conv = *spec;
    conv.op = LS_OP_CONV2D;
    conv.attrs = (ls_attrs){{0}};
    *(ls_conv2d_attrs *)(void *)conv.attrs.bytes = (ls_conv2d_attrs){
        .filters = (int)spec->y[0].shape.dim[3],
        .kernel = {d->kernel[0], d->kernel[1]},
        .strides = {d->strides[0], d->strides[1]},
        .padding = d->padding,
        .activation = d->activation,
        .no_bias = d->no_bias,
        .groups = (int)spec->x[0].shape.dim[3],
        .dilation = {d->dilation[0], d->dilation[1]},
        .pad = {d->pad[0], d->pad[1], d->pad[2], d->pad[3]},
    };
    return conv;
}

ls_status ls__cpu_depthwise_conv2d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    ls_kernel_spec conv = ls__cpu_depthwise_as_conv2d(spec);
    return ls__cpu_conv2d_create(cpu, &conv, out);
}
