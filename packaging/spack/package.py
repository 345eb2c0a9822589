# Copyright the Lockstep authors. Licensed under the Apache License 2.0.
from spack.package import *


class Lockstep(CMakePackage):
    """Distributed deep-learning training in C: the same bits on any number of workers."""

    # Put this file into packages/lockstep/ of a Spack repository; give url and sha256 of the release you install, or
    # point Spack at a checkout: spack dev-build lockstep@main
    homepage = "https://example.org/lockstep"  # where you keep it
    license("Apache-2.0")

    version("main", branch="main")
    version("0.1.0")

    variant("mpi", default=True, description="Workers as MPI processes")
    variant("charts", default=True, description="Charts of reports, drawn by gnuplot")

    depends_on("c", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("onednn@2.6:3")
    depends_on("hwloc@2:")
    depends_on("jansson")
    depends_on("openssl")
    depends_on("zlib-api")
    depends_on("libpng")
    depends_on("libjpeg-turbo")
    depends_on("lmdb")
    depends_on("hdf5~mpi")
    depends_on("mpi@3.1:", when="+mpi")
    depends_on("gnuplot@5:", type="run", when="+charts")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("LS_WITH_MPI", "mpi"),
            self.define("LS_DNNL_ROOT", self.spec["onednn"].prefix),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(self.prefix.bin.lockstep)("check")
