"""lit over the tests that take a program to a program."""

import os

import lit.formats

config.name = "meshc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)

tools = [os.path.join(config.build, "bin"), config.llvm_tools]
config.environment["PATH"] = os.pathsep.join(tools + [os.environ["PATH"]])
