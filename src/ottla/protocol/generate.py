"""Python source of a decoder or an encoder of one message in one version.

The source is straight-line code over local variables: one `struct` call for each run of neighbouring fields of fixed
size (a run takes in the length byte or word of the string, array or tag section that follows it), no call per field,
structs and arrays in line. In the generated code:

    buf, p, end   what is read, the position, and its end      out       what is written
    o0 o1 …       the object of each nesting depth             n, q, s   a length, the end of a value, its bytes
    U…, P…        unpack_from, pack of one run                 C_…       the class of a struct
    Us_…, Ps_…    the same for arrays, by number of elements

Bounds: a length is held against the bytes left before anything is made of it, for arrays divided by the least size of
an element, so time and memory stay proportional to the bytes given. Reading past the end raises `struct.error` or
`IndexError`, which the generated function turns into MalformedMessage.

Wire forms: integers big-endian; string int16 length, bytes and records int32 length, array int32 count, -1 is null.
In flexible versions (KIP-482) each of these is an unsigned varint of length + 1, 0 is null, and each struct ends with
its tagged fields: count, then tag, size and value of each, in rising order of tags. A struct that may be null has a
byte before it: -1 null, else present.
"""

from struct import Struct as Packer

from ottla.protocol.model import default_expression
from ottla.protocol.schema import Field, Schema, Struct

FORMATS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "float64": "d", "bool": "?", "uuid": "16s"}
SIZES = {name: Packer(">" + fmt).size for name, fmt in FORMATS.items()}
LONGEST_STRING = 32767
SHORT = 9  # arrays of numbers with fewer elements (the replicas of a partition) have their packers ready


class _Writer:
    """Lines of source, the indent they are at, and the run of fixed-size fields not yet written."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = schema.is_flexible(version)
        self.lines: list[str] = []
        self.indent = 1
        self.run: list[tuple[str, str]] = []  # format character, and target or value
        self.packers: dict[str, Packer] = {}
        self.arrays: set[str] = set()
        self.objects = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def packer(self, prefix: str, formats: list[str]) -> tuple[str, int]:
        fmt = ">" + "".join(formats)
        packer = self.packers.get(fmt)
        if packer is None:
            packer = self.packers[fmt] = Packer(fmt)
        return prefix + fmt[1:].replace("?", "z"), packer.size

    def short_arrays(self, prefix: str, fmt: str) -> str:
        """The name of the packers of short arrays; there is no array of booleans, whose format is no name."""
        self.arrays.add(fmt)
        return f"{prefix}s_{fmt}"

    def next_object(self) -> str:
        self.objects += 1
        return f"o{self.objects}"

    def least_size(self, field: Field) -> int:
        """The fewest bytes that an element of the array `field` takes."""
        if field.struct is None:
            return self._least(field.type)
        return self._least_of_struct(field.struct)

    def _least(self, type_name: str) -> int:
        if type_name in SIZES:
            return SIZES[type_name]
        if type_name == "string16":
            return 2
        return 1 if self.flexible else 2 if type_name == "string" else 4

    def _least_of_struct(self, struct: Struct) -> int:
        size = 1 if self.flexible else 0
        for field in struct.in_version(self.version)[0]:
            if field.array:
                size += 1 if self.flexible else 4
            elif field.struct is None:
                size += self._least(field.type)
            elif field.nullable_in(self.version):
                size += 1
            else:
                size += self._least_of_struct(field.struct)
        return size


class DecoderWriter(_Writer):
    def source(self) -> str:
        self.line("end = len(buf)")
        self.line("try:")
        self.indent = 2
        self.line("o0 = new(C_)")
        self.body(self.schema.root, "o0", "")
        self.flush()
        self.indent = 1
        self.line("except (struct_error, IndexError):")
        self.line("    raise MalformedMessage(f'{WHERE}: ends early, after {end} bytes') from None")
        self.line("except UnicodeDecodeError as error:")
        self.line("    raise MalformedMessage(f'{WHERE}: text is not UTF-8: {error.reason}') from None")
        self.line("return o0, p")
        return "def decode(buf, p=0):\n" + "\n".join(self.lines) + "\n"

    def flush(self) -> None:
        if not self.run:
            return
        formats = [fmt for fmt, _ in self.run]
        if formats == ["B"]:
            self.line(f"{self.run[0][1]} = buf[p]")
            size = 1
        elif formats == ["?"]:
            self.line(f"{self.run[0][1]} = buf[p] != 0")
            size = 1
        else:
            name, size = self.packer("U", formats)
            self.line(f"{', '.join(target for _, target in self.run)}, = {name}(buf, p)")
        self.line(f"p += {size}")
        self.run.clear()

    def body(self, struct: Struct, obj: str, path: str) -> None:
        untagged, tagged = struct.in_version(self.version)
        for field in struct.fields:
            if field not in untagged:
                self.line(f"{obj}.{field.name} = {_default(field)}")
        for field in untagged:
            self.field(field, f"{obj}.{field.name}", f"{path}.{field.name}".lstrip("."))
        if self.flexible:
            self.tags(tagged, obj, path)

    def field(self, field: Field, target: str, path: str) -> None:
        nullable = field.nullable_in(self.version)
        if field.array:
            self.array(field, target, path, nullable)
        elif field.struct is None:
            self.scalar(field.type, target, path, nullable)
        elif nullable:
            self.length("B")
            self.line("if n > 127:" if field.tag is None else "if n == 0:")  # a tagged one has a marker of its own
            self.line(f"    {target} = None")
            self.line("else:")
            self.indent += 1
            self.struct(field.struct, target, path)
            self.flush()
            self.indent -= 1
        else:
            self.struct(field.struct, target, path)

    def struct(self, struct: Struct, target: str, path: str) -> None:
        obj = self.next_object()
        self.line(f"{target} = {obj} = new(C_{struct.name})")
        self.body(struct, obj, path)

    def length(self, fmt: str) -> None:
        """Reads a length into n; 'V' is an unsigned varint."""
        self.run.append(("B" if fmt == "V" else fmt, "n"))
        self.flush()
        if fmt == "V":
            self.line("if n > 127:")
            self.line("    n, p = read_varint(buf, p, n)")

    def scalar(self, type_name: str, target: str, path: str, nullable: bool) -> None:
        if type_name in FORMATS:
            self.run.append((FORMATS[type_name], target))
            return
        text = type_name.startswith("string")
        compact = self.flexible and type_name != "string16"
        self.length("V" if compact else "h" if text else "i")
        if compact and text:
            self.line(f"    if n > {LONGEST_STRING + 1}:")
            self.line(f"        bad_length(WHERE, {path!r}, n - 1, {LONGEST_STRING})")
        if nullable:
            self.line(f"if n {'== 0' if compact else '< 0'}:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.indent += 1
        self.line(f"q = p + n{' - 1' if compact else ''}")
        self.line("if q > end:" if nullable else "if not p <= q <= end:")
        self.line(f"    bad_length(WHERE, {path!r}, q - p, end - p)")
        if text:
            self.line(f"{target} = utf_8_decode(buf[p:q], 'strict', True)[0]")
        else:
            self.line(f"{target} = bytes(buf[p:q])" if type_name == "bytes" else f"{target} = buf[p:q]")
        self.line("p = q")
        if nullable:
            self.indent -= 1

    def array(self, field: Field, target: str, path: str, nullable: bool) -> None:
        least = self.least_size(field)
        if least == 0:
            raise ValueError(f"{self.schema.name} v{self.version}: an element of {path} may take no bytes at all")
        self.length("V" if self.flexible else "i")
        if self.flexible:
            self.line("n -= 1")
        if nullable:
            self.line("if n < 0:")
            self.line(f"    {target} = None")
            self.line("else:")
            self.indent += 1
        left = "end - p" if least == 1 else f"(end - p) // {least}"
        self.line(f"if n > {left}:" if nullable else f"if not 0 <= n <= {left}:")
        self.line(f"    bad_length(WHERE, {path!r}, n, {left})")
        if field.type == "uuid":
            self.line("q = p + n * 16")
            self.line(f"{target} = [u for u, in iter_uuids(buf[p:q])]")
            self.line("p = q")
        elif field.type in FORMATS:
            fmt = FORMATS[field.type]
            short = self.short_arrays("U", fmt)
            self.line(f"{target} = list({short}[n](buf, p) if n < {SHORT} else unpack_from(f'>{{n}}{fmt}', buf, p))")
            self.line(f"p += n * {least}")
        else:
            obj = self.next_object()
            elements = f"l{obj[1:]}"
            self.line(f"{target} = {elements} = []")
            self.line("for _ in range(n):")
            self.indent += 1
            if field.struct is not None:
                self.line(f"{obj} = new(C_{field.struct.name})")
                self.body(field.struct, obj, path)
                self.flush()
            else:
                self.scalar(field.type, obj, path, False)
            self.line(f"{elements}.append({obj})")
            self.indent -= 1
        if nullable:
            self.indent -= 1

    def tags(self, tagged: list[Field], obj: str, path: str) -> None:
        self.length("B")
        if not tagged:
            self.line("if n:")
            self.line("    p = skip_tags(buf, p, n, end, WHERE)")
            return
        tag, last, stop = f"t{obj[1:]}", f"last{obj[1:]}", f"stop{obj[1:]}"
        self.line("if n:")
        self.indent += 1
        self.line("n, p = read_varint(buf, p, n)")
        self.line(f"{last} = -1")
        self.line("for _ in range(n):")
        self.indent += 1
        self.line(f"{tag}, p = read_varint(buf, p + 1, buf[p])")
        self.line("n, p = read_varint(buf, p + 1, buf[p])")
        self.line(f"{stop} = p + n")
        self.line(f"if {tag} <= {last} or {stop} > end:")
        self.line(f"    bad_tag(WHERE, {path!r}, {tag})")
        self.line(f"{last} = {tag}")
        for position, field in enumerate(tagged):
            self.line(f"{'el' if position else ''}if {tag} == {field.tag}:")
            self.indent += 1
            self.field(field, f"{obj}.{field.name}", f"{path}.{field.name}".lstrip("."))
            self.flush()
            self.indent -= 1
        self.line("else:")
        self.line(f"    p = {stop}")
        self.line(f"if p != {stop}:")
        self.line(f"    bad_tag(WHERE, {path!r}, {tag})")
        self.indent -= 2


class EncoderWriter(_Writer):
    def __init__(self, schema: Schema, version: int) -> None:
        super().__init__(schema, version)
        self.out = "out"

    def source(self) -> str:
        self.line("if out is None:")
        self.line("    out = bytearray()")
        self.line("try:")
        self.indent = 2
        self.body(self.schema.root, "o0")
        self.flush()
        if self.lines[-1].endswith("try:"):
            self.line("pass")
        self.indent = 1
        self.line("except (struct_error, TypeError, AttributeError, ValueError, OverflowError) as error:")
        self.line("    raise unencodable(o0, error) from error")
        self.line("return out")
        return "def encode(o0, out=None):\n" + "\n".join(self.lines) + "\n"

    def pack(self, run: list[tuple[str, str]]) -> None:
        if not run:
            return
        if all(fmt == "x" for fmt, _ in run):
            self.line(f"{self.out} += {bytes(len(run))!r}")
            return
        name, _ = self.packer("P", [fmt for fmt, _ in run])
        self.line(f"{self.out} += {name}({', '.join(value for fmt, value in run if fmt != 'x')})")

    def flush(self) -> None:
        self.pack(self.run)
        self.run.clear()

    def length(self, fmt: str, value: str, *, text: bool = False) -> None:
        """Writes a length after the pending run; 'V' is an unsigned varint."""
        if fmt != "V":
            self.run.append((fmt, value))
            self.flush()
            return
        if value != "n":
            self.line(f"n = {value}")
        self.line("if n < 128:")
        self.indent += 1
        if self.run:
            self.pack([*self.run, ("B", "n")])
        else:
            self.line(f"{self.out}.append(n)")
        self.indent -= 1
        self.line("else:")
        self.indent += 1
        self.flush()
        self.line(f"{self.out} += {'string_length' if text else 'write_varint'}(n)")
        self.indent -= 1

    def body(self, struct: Struct, obj: str) -> None:
        untagged, tagged = struct.in_version(self.version)
        for field in untagged:
            self.field(field, f"{obj}.{field.name}")
        if self.flexible:
            self.tags(tagged, obj)

    def field(self, field: Field, value: str) -> None:
        nullable = field.nullable_in(self.version)
        if field.array:
            self.array(field, value, nullable)
        elif field.struct is None:
            self.scalar(field.type, value, nullable)
        elif nullable:
            obj = self.next_object()
            self.flush()
            self.line(f"{obj} = {value}")
            self.line(f"if {obj} is None:")
            self.line(f"    {self.out}.append({255 if field.tag is None else 0})")
            self.line("else:")
            self.indent += 1
            self.run.append(("B", "1"))
            self.body(field.struct, obj)
            self.flush()
            self.indent -= 1
        else:
            obj = self.next_object()
            self.line(f"{obj} = {value}")
            self.body(field.struct, obj)

    def scalar(self, type_name: str, value: str, nullable: bool) -> None:
        if type_name in FORMATS:
            if type_name == "uuid":
                self.line(f"if len({value}) != 16:")
                self.line("    raise ValueError")
            self.run.append((FORMATS[type_name], value))
            return
        text = type_name.startswith("string")
        compact = self.flexible and type_name != "string16"
        fmt = "V" if compact else "h" if text else "i"
        encode = ".encode()" if text else ""
        one_more = " + 1" if compact else ""
        if nullable:
            self.line(f"s = {value}")
            self.line("if s is None:")
            self.line(f"    n = {0 if compact else -1}")
            self.line("    s = b''")
            self.line("else:")
            if text:
                self.line("    s = s.encode()")
            self.line(f"    n = len(s){one_more}")
            self.length(fmt, "n", text=text)
        else:
            self.line(f"s = {value}{encode}")
            self.length(fmt, f"len(s){one_more}", text=text)
        self.line(f"{self.out} += s")

    def array(self, field: Field, value: str, nullable: bool) -> None:
        elements = f"l{self.objects}"
        self.line(f"{elements} = {value}")
        if field.type.startswith("string"):
            self.line(f"if {elements}.__class__ is str:")
            self.line("    raise TypeError")
        count = f"len({elements})" + (" + 1" if self.flexible else "")
        if nullable:
            count = f"{0 if self.flexible else -1} if {elements} is None else {count}"
        self.length("V" if self.flexible else "i", count)
        if field.type in FORMATS and field.type != "uuid":
            fmt = FORMATS[field.type]
            short = self.short_arrays("P", fmt)
            self.line(f"if {elements}:")
            self.line(f"    n = len({elements})")
            packed = f"{short}[n](*{elements}) if n < {SHORT} else pack(f'>{{n}}{fmt}', *{elements})"
            self.line(f"    {self.out} += {packed}")
            return
        obj = self.next_object()
        self.line(f"for {obj} in {elements}{' or ()' if nullable else ''}:")
        self.indent += 1
        if field.struct is not None:
            self.body(field.struct, obj)
        else:
            self.scalar(field.type, obj, False)
        self.flush()
        self.indent -= 1

    def tags(self, tagged: list[Field], obj: str) -> None:
        if not tagged:
            self.run.append(("x", ""))
            return
        changed = [self.changed(field, f"{obj}.{field.name}") for field in tagged]
        pending = self.run[:]
        self.line(f"if {' or '.join(changed)}:")
        self.indent += 1
        self.flush()
        count, written, value = f"c{obj[1:]}", f"w{obj[1:]}", f"v{obj[1:]}"
        self.line(f"{count} = 0")
        self.line(f"{written} = bytearray()")
        outer = self.out
        for field, condition in zip(tagged, changed, strict=True):
            self.line(f"if {condition}:")
            self.indent += 1
            self.line(f"{value} = bytearray()")
            self.out = value
            self.field(field, f"{obj}.{field.name}")
            self.flush()
            self.line(f"{count} += 1")
            self.line(f"{written} += write_varint({field.tag})")
            self.line(f"{written} += write_varint(len({value}))")
            self.line(f"{written} += {value}")
            self.indent -= 1
        self.out = outer
        self.line(f"{self.out} += write_varint({count})")
        self.line(f"{self.out} += {written}")
        self.indent -= 1
        self.line("else:")
        self.indent += 1
        self.pack([*pending, ("x", "")])
        self.indent -= 1

    def changed(self, field: Field, value: str) -> str:
        """An expression that is true when the field does not hold its default."""
        if field.default is None:
            return f"{value} is not None"
        if field.array:
            return f"({value} is None or {value})"
        if field.struct is not None:
            untagged, tagged = field.struct.in_version(self.version)
            inner = " or ".join(self.changed(inner, f"{value}.{inner.name}") for inner in [*untagged, *tagged])
            return f"({value} is None or {inner})" if field.nullable_in(self.version) else f"({inner})"
        return f"{value} != {field.default!r}"


def _default(field: Field) -> str:
    text = default_expression(field)
    return f"C_{text}" if text.endswith("()") else text
