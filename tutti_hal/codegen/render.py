"""Rendering: from a record, an arch and a kernel template to a unit that a compiler reads, and the headers it needs.

The result depends on the inputs alone: no clock, no path, no order of a hash table.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tutti_hal.codegen import text
from tutti_hal.codegen.complete import require_complete
from tutti_hal.codegen.headers import declare, headers, known_names
from tutti_hal.codegen.kernels import KernelDecl, Param
from tutti_hal.codegen.lint import lint_all
from tutti_hal.codegen.sources import UNIT_SUFFIX, reached, roots_of, template_name
from tutti_hal.codegen.structs import Struct, load_all
from tutti_hal.errors import GenerationError
from tutti_hal.paths import templates_dir
from tutti_hal.spec import Spec, load_spec

if TYPE_CHECKING:
    from jinja2 import Environment

    from tutti_hal.record import Arch, Record

#: Stands in a unit for the hash of its own text while that hash is taken.
_HASH_PLACEHOLDER = "0" * 64

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Rendered:
    """A unit, ready to be compiled in a folder that holds its headers.

    Attributes:
        template: the template's name, such as ``kernels/ring.cu.j2``.
        source: the unit's text (GPL-2.0-only).
        headers: relative path -> text of each header that the unit includes.
        kernels: its kernels, in order.
        sha256: over the source (its own hash field taken as zeros) and the headers; also in the module's table.
    """

    template: str
    source: str
    headers: Mapping[str, str]
    kernels: tuple[KernelDecl, ...]
    sha256: str

    @property
    def name(self) -> str:
        """The kernel set: the template's name without folder and suffix."""
        return Path(self.template).name.removesuffix(UNIT_SUFFIX)

    def write(self, folder: Path, suffix: str = ".cu") -> Path:
        """Write unit and headers below ``folder``, which is made if need be, and return the unit's path."""
        for name, content in self.headers.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        unit = folder / f"{self.name}{suffix}"
        unit.write_text(self.source, encoding="utf-8")
        return unit


def check_templates(names: Iterable[str], roots: Sequence[Path], spec: Spec) -> None:
    """Lint kernel templates and all that they include; the last root is the one with the structs.

    Raises:
        GenerationError: there are findings; all of them are listed, with file, line and what to use instead.
    """
    sources: dict[str, str] = {}
    for name in names:
        sources.update(reached(name, roots))
    # The layers are where raw text belongs.
    texts = [(name, body) for name, body in sorted(sources.items()) if not name.startswith("layers/")]
    findings = lint_all(texts, names=known_names(spec, roots[-1]))
    if findings:
        count = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}"
        raise GenerationError(
            f"lint {', '.join(name for name, _ in texts)}",
            f"{count}:\n  " + "\n  ".join(str(finding) for finding in findings) + "\n",
            "Write the kernel in primitives.",
        )


def render(
    record: Record,
    arch: Arch | str,
    template: str,
    *,
    templates: Path | None = None,
    spec: Spec | None = None,
) -> Rendered:
    """Render one kernel unit for one arch of one vendor.

    Args:
        record: the vendor's record.
        arch: one of ``record.archs``, or its name.
        template: a kernel set (``ring``) or a template's name (``kernels/ring.cu.j2``).
        templates: another template root than the installed one (for mutants and tests).
        spec: another contract than the installed one.

    Raises:
        GenerationError: the lint refuses a template, a name is undefined, or a template does not render.
        RecordIncomplete: the record does not lower every primitive that this arch's capabilities make mandatory.
    """
    root = templates or templates_dir()
    contract = spec or load_spec()
    chosen = resolve_arch(record, arch)
    name = template_name(template)
    require_complete(record, chosen, contract, host_functions=False)
    check_templates([name], roots_of(record, root), contract)
    return _Renderer(record, chosen, root, contract).unit(name)


def resolve_arch(record: Record, arch: Arch | str) -> Arch:
    """The arch of that name.

    Raises:
        GenerationError: the record has no such arch.
    """
    if not isinstance(arch, str):
        return arch
    if arch not in record.archs:
        known = ", ".join(record.archs)
        raise GenerationError(
            f"render for {record.vendor}:{arch}", "the record has no such arch", f"Use one of {known}."
        )
    return record.archs[arch]


class _Renderer:
    """One rendering: an environment, and what the template declared on the way."""

    def __init__(self, record: Record, arch: Arch, root: Path, spec: Spec) -> None:
        self.record = record
        self.arch = arch
        self.spec = spec
        self.structs = load_all(root)
        self.kernels: list[KernelDecl] = []
        self.declared: set[str] = set()
        self.environment = _environment(roots_of(record, root))
        self.environment.globals.update(
            kernel=self._kernel,
            struct=self._struct,
            capability=self._capability,
            wave_width=arch.wave_width,
            limits=MappingProxyType(dict(arch.limits)),
        )

    def unit(self, name: str) -> Rendered:
        """The unit of one template, with its headers."""
        texts = headers(self.record, self.arch, self.spec, self._run)
        body = _tidy(self._run(name, {}))
        if not self.kernels:
            raise GenerationError(f"render {name}", "it declares no kernel", 'Use {% call kernel("name", [...]) %}.')
        source = self._unit_text(name, body, _HASH_PLACEHOLDER)
        digest = sha256()
        for part in (source, *(part for item in sorted(texts.items()) for part in item)):
            digest.update(part.encode() + b"\0")
        value = digest.hexdigest()
        source = self._unit_text(name, body, value)
        return Rendered(name, source, MappingProxyType(texts), tuple(self.kernels), value)

    def _unit_text(self, name: str, body: str, content_hash: str) -> str:
        footer = self._table(content_hash) if self.record.device.entry == "table" else ""
        words = {"template": name, "vendor": self.record.vendor, "body": body, "footer": footer}
        return self._run("layers/unit.cu.j2", words).strip("\n") + "\n"

    def _run(self, name: str, words: Mapping[str, Any]) -> str:
        from jinja2 import TemplateError, TemplateSyntaxError, UndefinedError

        try:
            return self.environment.get_template(name).render(**words)
        except TemplateSyntaxError as error:
            where = f"{error.name or name}:{error.lineno}"
            raise GenerationError(f"render {name}", f"{where}: {error.message}", "Correct the template.") from error
        except UndefinedError as error:
            where = _place(error) or name
            fix = "Define the name, or correct its spelling."
            raise GenerationError(f"render {name}", f"{where}: {error.message}", fix) from error
        except TemplateError as error:
            raise GenerationError(f"render {name}", str(error), "Correct the template.") from error

    # ---- what a template may call ----

    def _capability(self, name: str) -> bool:
        """Whether this arch has a capability; for text that must not even be rendered without it."""
        if name not in self.arch.capabilities:
            raise GenerationError(
                f"render for {self.record.vendor}:{self.arch.name}",
                f"a template asks for capability {name!r}, which does not exist",
                f"Use one of {', '.join(sorted(self.arch.capabilities))}.",
            )
        return self.arch.capabilities[name]

    def _struct(self, name: str) -> str:
        """The C text of a shared record, and of those that it holds, once in a unit."""
        if name not in self.structs:
            known = ", ".join(self.structs) or "none"
            raise GenerationError(f"declare struct {name!r}", "no table has it", f"The structs are: {known}.")
        return "\n\n".join(self._struct_texts(self.structs[name]))

    def _struct_texts(self, record: Struct) -> list[str]:
        if record.name in self.declared:
            return []
        self.declared.add(record.name)
        inner = [t for field in record.fields if isinstance(field.kind, Struct) for t in self._struct_texts(field.kind)]
        return [*inner, record.c_text()]

    def _kernel(
        self,
        name: str,
        params: Sequence[Sequence[str]] = (),
        max_threads: int = 0,
        *,
        caller: Callable[[], str],
    ) -> str:
        """One kernel: ``{% call kernel("copy", [("n", "uint32_t")], max_threads=256) %} body {% endcall %}``."""
        decl = KernelDecl(name, tuple(Param(str(p[0]), " ".join(str(p[1]).split())) for p in params), int(max_threads))
        self._check_kernel(decl)
        self.kernels.append(decl)
        body = textwrap.indent(textwrap.dedent(_tidy(caller())), text.INDENT, _indented)
        declared = [declare(param.ctype, param.name) for param in decl.params]
        if self.record.device.entry == "table":
            signature = text.listed(f"static void tt_body_{name}(", declared, ")")
            arguments = [f"*static_cast<{_pointer_to(p.ctype)}>(args[{i}])" for i, p in enumerate(decl.params)]
            call = text.listed(f"{text.INDENT}tt_body_{name}(", arguments, ");")
            unpack = text.function(f"static void tt_entry_{name}(void **{'args' if arguments else ''})", call)
            return self._run("layers/entry_host.j2", {"signature": signature, "body": body, "unpack": unpack})
        bounds = f" TT_LAUNCH_BOUNDS({decl.max_threads})" if decl.max_threads else ""
        signature = text.kernel_signature(f"TT_ENTRY void{bounds}", name, declared)
        return self._run("layers/entry_device.j2", {"signature": signature, "body": body})

    def _check_kernel(self, decl: KernelDecl) -> None:
        tried = f"declare kernel {decl.name!r}"
        names = [param.name for param in decl.params]
        for word in (decl.name, *names):
            if not _IDENTIFIER.fullmatch(word):
                raise GenerationError(tried, f"{word!r} is not a C name", "Use letters, digits and underscores.")
        if any(other.name == decl.name for other in self.kernels):
            raise GenerationError(tried, "the unit has a kernel of that name already", "Give each kernel its own name.")
        if len(set(names)) != len(names):
            raise GenerationError(tried, "two parameters have one name", "Give each parameter its own name.")
        limit = self.arch.limits.get("block_threads", 0)
        if decl.max_threads < 0 or (limit and decl.max_threads > limit):
            found = f"max_threads={decl.max_threads}, and {self.arch.name} allows {limit}"
            raise GenerationError(tried, found, "Ask for fewer threads.")

    def _table(self, content_hash: str) -> str:
        arrays = []
        rows = []
        for decl in self.kernels:
            sizes, names = "nullptr", "nullptr"
            if decl.params:
                sizes, names = f"tt_sizes_{decl.name}", f"tt_names_{decl.name}"
                size_items = [f"sizeof({param.ctype})" for param in decl.params]
                name_items = [f'"{param.name}"' for param in decl.params]
                arrays += [
                    text.initializer(f"static const uint32_t {sizes}[]", size_items, [p.name for p in decl.params]),
                    text.initializer(f"static const char *const {names}[]", name_items, [p.ctype for p in decl.params]),
                ]
            row = [
                f'"{decl.name}"',
                f"tt_entry_{decl.name}",
                str(len(decl.params)),
                str(decl.max_threads),
                sizes,
                names,
            ]
            rows.append(text.listed(f"{text.INDENT}{{", row, "},"))
        words = {"arrays": arrays, "rows": rows, "kernels": self.kernels, "content_hash": content_hash}
        return self._run("layers/module_host.j2", words).strip("\n")


def _environment(roots: Sequence[Path]) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(roots, encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )


def _place(error: BaseException) -> str:
    """``folder/name:line`` of the innermost template that an error passed through."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path.suffix == ".j2":
            place = f"{path.parent.name}/{path.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _tidy(rendered: str) -> str:
    """No blank lines at the ends, no runs of them, no blanks at line ends."""
    lines = [line.rstrip() for line in rendered.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _indented(line: str) -> bool:
    """Preprocessor lines stay at the margin, as clang-format puts them."""
    return bool(line.strip()) and not line.startswith("#")


def _pointer_to(ctype: str) -> str:
    return f"{ctype}{'*' if ctype.endswith('*') else ' *'}"
