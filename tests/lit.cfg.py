"""lit over the tests that take a program to a program, and over the command line."""

import os
import shlex
import sys

import lit.formats

config.name = "meshc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)

tools = [os.path.join(config.build, "bin"), config.llvm_tools]
config.environment["PATH"] = os.pathsep.join(tools + [os.environ["PATH"]])
# Programs that `meshc run` compiles stay in the build tree.
config.environment["MESHC_CACHE_DIR"] = os.path.join(config.build, "tests", "cache")

driver = os.path.join(config.test_source_root, "driver")
python = shlex.quote(sys.executable)
config.substitutions += [
    # %exits 1 meshc check x.mesh: with this exit code, not another.
    ("%exits", f"{python} {shlex.quote(os.path.join(driver, 'exits.py'))}"),
    ("%arrays", f"{python} {shlex.quote(os.path.join(driver, 'arrays.py'))}"),
    ("%meshc", os.path.join(config.build, "bin", "meshc")),
    ("%emulation", os.path.join(config.build, "lib", "emulation")),
    ("%python", python),
]
