"""Mutants of a whole executable, as real files that are run.

Every loaded byte of it is one of
  sealed    what meshc wrote and what was linked to it: damage ends with exit code 4
  unsealed  what only debuggers and linkers read: damage changes nothing
  before    what is read or run before the seal has been verified: by the system's
            loader, or the code that verifies. Damage may end by a signal there, or
            with the loader's exit code, or not at all; or the code that verifies takes
            itself, and all else, as sound.
runtime/exec/ExecutableSeal.h has the list of the last.
"""

import collections
import hashlib
import os
import re
import struct
import subprocess

from processes import count

# Of the system's loader, and of calls to other libraries.
LOADER = {".interp", ".dynsym", ".dynstr", ".hash", ".gnu.hash", ".gnu.version",
          ".gnu.version_r", ".gnu.version_d", ".rela.dyn", ".relr.dyn", ".rela.plt",
          ".dynamic", ".preinit_array", ".got", ".got.plt", ".plt", ".iplt"}
SEAL = {"meshc_seal", "meshc_seal_data"}
RESOLVER = re.compile(r"\.resolver(\.\d+)?$|^__cpu_indicator_init$|^get_available_features|"
                      r"^(set|has)_cpu_feature")
KERNEL = re.compile(r"^(init|step|eval|gradient)_\d+$")
NAMED = {"meshc_program_data": "program", "meshc_program_size": "program",
         "meshc_kernel_table": "kernel table", "meshc_kernel_count": "kernel table"}
# Bytes of the class `before`: 59 KB of 3.9 MB.
MAX_BEFORE = 64 << 10
# Tags of .dynamic (ELF).
DT_DEBUG, DT_PREINIT_ARRAY = 21, 32

Class = collections.namedtuple("Class", ("kind", "name"))
CHECK = Class("before", "code that verifies")


class Layout:
    """What every byte of an executable is."""

    def __init__(self, path):
        self.content = path.read_bytes()
        mark, self.loaded = struct.unpack("<8sQ", self.content[-48:-32])
        assert mark == b"MSHXSEAL", mark
        self.sections, self.symbols = self.read_sections(path), {}
        spans = [(0, self.sections[".interp"][1], Class("before", "headers"))]
        for name, (_, start, size) in self.sections.items():
            spans.append((start, start + size, self.classify(name, start)))
        spans += self.named_spans(path)
        spans.append((len(self.content) - 48, len(self.content), Class("sealed", "seal")))
        self.of = [Class("sealed", "between sections")] * self.loaded
        self.of += [Class("unsealed", "section table")] * (len(self.content) - self.loaded)
        for begin, end, found in spans:  # the later ones are more precise
            self.of[begin:end] = [found] * (end - begin)

    def classify(self, section, start):
        if start >= self.loaded:
            return Class("unsealed", "for debuggers and linkers")
        if section in LOADER:
            return Class("before", "of the loader")
        if section in SEAL:
            return CHECK
        return Class("sealed", section)

    def read_sections(self, path):
        """Address, place and size of those that take bytes of the file."""
        text = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True,
                              check=True).stdout
        found = re.findall(r"\] (\S+) +(\S+) +([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+) ", text)
        return {name: tuple(int(number, 16) for number in numbers)
                for name, kind, *numbers in found if kind not in ("NOBITS", "NULL")}

    def named_spans(self, path):
        text = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True,
                              check=True).stdout
        for address, size, name in re.findall(
                r": ([0-9a-f]{16}) +(\d+) .* (\S+)$", text, re.M):
            found = (Class("sealed", NAMED[name]) if name in NAMED
                     else Class("sealed", "kernels") if KERNEL.search(name)
                     else Class("before", "resolvers of functions") if RESOLVER.search(name)
                     else None)
            if found and int(size) > 0:
                begin = self.find(int(address, 16))
                self.symbols[name] = (begin, begin + int(size))
                yield begin, begin + int(size), found

    def find(self, address):
        """Where the byte at an address is in the file."""
        for base, start, size in self.sections.values():
            if base and base <= address < base + size:
                return start + address - base
        raise AssertionError(f"no section has {address:x}")

    def seal(self, content):
        """That of other bytes."""
        digest = hashlib.blake2b(content[:self.loaded] + struct.pack("<Q", self.loaded),
                                 digest_size=32).digest()
        return b"MSHXSEAL" + struct.pack("<Q", self.loaded) + digest


class Files:
    """Changes an executable in place, runs it and makes it whole again."""

    def __init__(self, executable, folder, ends, codes, numbers):
        self.layout = Layout(executable)
        self.path = folder / "changed"
        self.path.write_bytes(self.layout.content)
        self.path.chmod(0o700)
        self.folder, self.ends, self.codes, self.numbers = folder, ends, codes, numbers
        self.places = {}
        for at, found in enumerate(self.layout.of):
            self.places.setdefault(found, []).append(at)
        self.counts = {found: {} for found in self.places}
        self.resealed_counts, self.faults = {}, []
        sound = ends.run(self.path, "info")
        assert sound == 0, sound
        self.sound_output = ends.output.read_bytes()
        assert self.layout.content[-48:] == self.layout.seal(self.layout.content)

    def write(self, changes):
        with open(self.path, "r+b") as file:
            for at, content in changes.items():
                file.seek(at)
                file.write(content)

    def kept(self, at, what):
        """A fault."""
        copy = self.folder / f"fault-{len(self.faults)}"
        copy.write_bytes(self.path.read_bytes())
        self.faults.append((copy, f"byte {at}", what))

    def change(self, at):
        """One byte."""
        sound = self.layout.content[at]
        numbers = self.numbers
        byte = (sound ^ 1 << numbers.randrange(8) if numbers.randrange(2)
                else (sound + numbers.randrange(1, 256)) % 256)
        found = self.layout.of[at]
        self.write({at: bytes([byte])})
        code = self.ends.run(self.path, "info")
        count(self.counts[found], code)
        if found.kind == "sealed" and code != 4:
            self.kept(at, (found, code))
        elif found.kind == "unsealed" and (
                code != 0 or self.ends.output.read_bytes() != self.sound_output):
            self.kept(at, (found, code))
        elif found.kind == "before" and code == 0 and found != CHECK:
            self.kept(at, (found, code))  # nobody has verified it
        self.write({at: bytes([sound])})

    def anywhere(self):
        self.change(self.numbers.randrange(len(self.layout.content)))

    def in_each_class(self, number):
        """One of a class after the other, so that small ones get their share."""
        places = list(self.places.values())[number % len(self.places)]
        self.change(self.numbers.choice(places))

    def all_before(self):
        for found, places in self.places.items():
            if found.kind == "before":
                for at in places:
                    self.change(at)
                print(found, self.counts[found], flush=True)

    def without_start(self):
        """.dynamic, changed so that the loader calls nothing before constructors."""
        _, start, size = self.layout.sections[".dynamic"]
        tags = struct.unpack_from(f"<{size // 8}Q", self.layout.content, start)[::2]
        at = start + 16 * tags.index(DT_PREINIT_ARRAY)
        self.write({at: struct.pack("<Q", DT_DEBUG)})
        code = self.ends.run(self.path, "info")
        if code != 4:
            self.kept(at, ("no start", code))
        self.write({at: struct.pack("<Q", DT_PREINIT_ARRAY)})

    def own_name(self):
        """Each byte of the file's own name: the check reads it. Where other code has it
        too, it is sealed."""
        places = [at for found in re.finditer(rb"/proc/self/exe\0", self.layout.content)
                  for at in range(*found.span())]
        assert any(self.layout.of[at] == CHECK for at in places), "the check has no name"
        for at in places:
            self.change(at)

    def cut(self):
        """The end less."""
        content, numbers = self.layout.content, self.numbers
        size = numbers.randrange(self.layout.loaded, len(content))
        os.truncate(self.path, size)
        code = self.ends.run(self.path, "info")
        count(self.resealed_counts, code)
        if code != 4:
            self.kept(size, ("cut off", code))
        self.write({size: content[size:]})

    def resealed(self, mutate):
        """In the program, by who can compute the seal: its real kernels run."""
        content, numbers = self.layout.content, self.numbers
        begin, end = self.layout.symbols["meshc_program_data"]
        # Of the same length: the code behind it has its place.
        program = content[begin:end]
        part = mutate(program, numbers)[:len(program)].ljust(len(program), b"\0")
        changed = content[:begin] + part + content[end:]
        self.write({begin: part, len(content) - 48: self.layout.seal(changed)})
        command = numbers.choice((
            ("train", "--steps", "3", "--data-dir", self.folder), ("info",),
            ("bench", "--steps", "2"),
            ("eval", "--init", "random", "--seed", "1", "--data-dir", self.folder)))
        code = self.ends.run(self.path, *command, *(
            ("--threads", "2") if command[0] != "info" else ()))
        count(self.resealed_counts, code)
        if code not in self.codes:
            self.kept(begin, (command, code))
        self.write({begin: program, len(content) - 48: content[-48:]})

    def report(self):
        """Counts of every class; False if what is not covered has grown."""
        sizes = {kind: sum(len(places) for found, places in self.places.items()
                           if found.kind == kind) for kind in ("sealed", "before", "unsealed")}
        print(f"executable: {sizes['sealed']} bytes sealed, {sizes['before']} read or run "
              f"before ({sizes['before'] / self.layout.loaded:.1%} of {self.layout.loaded} "
              f"loaded), {sizes['unsealed']} not loaded")
        for found, counts in sorted(self.counts.items()):
            if counts:
                print(f"  {found.kind:9}{found.name:26}{len(self.places[found]):9} bytes:",
                      counts)
        if self.resealed_counts:
            print("  resealed or cut off:", self.resealed_counts)
        print(f"  longest {self.ends.longest:.2f} s", flush=True)
        return sizes["before"] <= MAX_BEFORE
