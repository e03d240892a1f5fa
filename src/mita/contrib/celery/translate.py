"""Reads a module that uses Celery, and writes it for Mita."""

from collections.abc import Iterator, Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from msgspec import Struct

from mita.errors import UsageError

from .calls import CallArguments, Signature, apply_async, chained, enqueued
from .decorators import task_options

_CANVAS = ("chain", "group", "chord")
_STARTS = ("delay", "apply_async")
_MANUAL = {
    "AsyncResult": "AsyncResult: use app.result_sync(id) or app.get_sync(id)",
    "beat_schedule": "beat_schedule: use @app.repeats(Cron(…)) or app.repeat(…)",
    "autodiscover_tasks": "autodiscover_tasks: use Tasks() in each module and app.include(tasks)",
    "update_state": "update_state: use job.progress_sync(done, total, message)",
    "signature": "signature(…): use task.call(…)",
}


class Note(Struct, frozen=True):
    """What a person has to look at, and on which line of the old file."""

    line: int
    text: str


class Translation(Struct, frozen=True):
    """The new code, and what a person has to look at."""

    code: str
    notes: tuple[Note, ...]


def translate(code: str) -> Translation:
    """Translate the common patterns of a module. Raises `UsageError` if it is no Python."""
    try:
        module = MetadataWrapper(cst.parse_module(code))
    except cst.ParserSyntaxError as error:
        raise UsageError(f"this is not a Python file: {error.message}") from error
    translator = _Translator(module)
    changed = module.visit(translator)
    return Translation(
        _with_imports(changed, translator), tuple(sorted(translator.notes, key=_line))
    )


def _line(note: Note) -> tuple[int, str]:
    return note.line, note.text


class _Translator(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, wrapper: MetadataWrapper) -> None:
        super().__init__()
        self._module = wrapper.module
        self.notes: list[Note] = []
        self.names: set[str] = set()  # of mita, that the new code needs
        self.needs_tasks = False
        self._app = "app"
        self._functions: list[cst.FunctionDef] = []
        self._selves: list[str | None] = []  # the first parameter of bound tasks
        self._handles: set[str] = set()  # variables that hold what delay returned

    # ------------------------------------------------------------ modules and apps

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        module = self._code(updated_node.module) if updated_node.module else ""
        if module.split(".")[0] != "celery":
            return updated_node
        return cst.RemoveFromParent()

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        target = updated_node.targets[0].target
        value = updated_node.value
        if not isinstance(target, cst.Name):
            self._look(original_node, self._code(target))
            return updated_node
        if isinstance(value, cst.Call) and self._code(value.func) in ("Celery", "celery.Celery"):
            self._app = target.value
            self.names.add("Mita")
            self._note(original_node, "the store is $MITA_URL, or give its URL: Mita('redis://…')")
            return updated_node.with_changes(value=cst.parse_expression("Mita()"))
        if "enqueue" in self._code(value):
            self._handles.add(target.value)
        return updated_node

    # ------------------------------------------------------------ tasks

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        bound = [one for one in node.decorators if "bind=True" in self._code(one)]
        first = node.params.params[0].name.value if bound and node.params.params else None
        self._functions.append(node)
        self._selves.append(first)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._functions.pop()
        if self._selves.pop() is None:
            return updated_node
        self.names.add("Job")
        first, *rest = updated_node.params.params
        job = cst.Param(cst.Name("job"), cst.Annotation(cst.Name("Job")), comma=first.comma)
        return updated_node.with_changes(
            params=updated_node.params.with_changes(params=[job, *rest])
        )

    def leave_Decorator(
        self, original_node: cst.Decorator, updated_node: cst.Decorator
    ) -> cst.Decorator:
        made = updated_node.decorator
        called = self._code(made.func) if isinstance(made, cst.Call) else self._code(made)
        owner, _, name = called.rpartition(".")
        if called == "shared_task":
            self.names.add("Tasks")
            self.needs_tasks = True
            owner = "tasks"
        elif name != "task" or not owner:
            return updated_node
        given = {
            arg.keyword.value: self._code(arg.value)
            for arg in (made.args if isinstance(made, cst.Call) else ())
            if arg.keyword is not None
        }
        found = task_options(given)
        self.names |= found.names
        for text in found.notes:
            self._note(original_node, text)
        options = f"({', '.join(found.arguments)})" if found.arguments else ""
        return updated_node.with_changes(decorator=cst.parse_expression(f"{owner}.task{options}"))

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        self._look(original_node, self._code(updated_node))
        if not self._is_self(updated_node.value, "request"):
            return updated_node
        known = {"id": "job.id", "retries": "(job.attempt - 1)"}
        wanted = updated_node.attr.value
        if wanted in known:
            return cst.parse_expression(known[wanted])
        self._note(original_node, f"self.request.{wanted}: look for it among the attributes of Job")
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if self._functions and updated_node.value == self._selves[-1]:
            return updated_node.with_changes(value="job")
        return updated_node

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BinaryOperation:
        if _signature(self, updated_node.right) is not None:
            self._note(original_node, "a | b: write app.chain(a.call(…), b.call)")
        return updated_node

    def _is_self(self, made: cst.BaseExpression, name: str) -> bool:
        """Whether this is `self.NAME` of a bound task; `self` is `job` by now."""
        bound = any(self._selves)
        return bound and self._code(made) == f"job.{name}"

    def leave_Raise(
        self, original_node: cst.Raise, updated_node: cst.Raise
    ) -> cst.BaseSmallStatement:
        return self._retried(original_node, updated_node.exc) or updated_node

    def leave_Expr(self, original_node: cst.Expr, updated_node: cst.Expr) -> cst.BaseSmallStatement:
        return self._retried(original_node, updated_node.value) or updated_node

    def _retried(
        self, original: cst.CSTNode, made: cst.BaseExpression | None
    ) -> cst.BaseSmallStatement | None:
        """`raise self.retry(…)`: later by its own wish, or a failure."""
        if not isinstance(made, cst.Call) or not self._is_self(made.func, "retry"):
            return None
        given = _arguments(self, made.args).by_name
        if "exc" in given:
            self._note(original, "an error is retried by itself, with the delays of Retry(…)")
            return cst.Raise(cst.parse_expression(given["exc"]))
        self.names.add("Reschedule")
        when = f"at={given['eta']}" if "eta" in given else f"after={given.get('countdown', '180')}"
        return cst.Raise(cst.parse_expression(f"Reschedule({when})"))

    # ------------------------------------------------------------ calls

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        canvas = self._canvas(original_node, updated_node)
        if canvas is not None:
            return cst.parse_expression(canvas)
        if not isinstance(updated_node.func, cst.Attribute):
            return updated_node
        owner, verb = self._code(updated_node.func.value), updated_node.func.attr.value
        if owner.startswith(tuple(f"{kind}(" for kind in _CANVAS)):
            return updated_node  # there is a note about it
        given = _arguments(self, updated_node.args)
        if verb == "delay":
            return cst.parse_expression(enqueued(owner, given, self._is_async))
        if verb == "apply_async":
            code, notes = apply_async(owner, given, self._is_async)
            for text in notes:
                self._note(original_node, text)
            return cst.parse_expression(code)
        if verb == "get" and owner in self._handles:
            wait = (
                f"{owner}.result({given.code})"
                if self._is_async
                else f"{owner}.result_sync({given.code})"
            )
            return cst.parse_expression(f"await {wait}" if self._is_async else wait)
        return updated_node

    def _canvas(self, original: cst.Call, made: cst.Call) -> str | None:
        """A chain, group or chord that is started."""
        flow, is_started = self._code_of_flow(original, made)
        if flow is None or not is_started:
            return None
        return f"await {flow}.enqueue()" if self._is_async else f"{flow}.enqueue_sync()"

    def _code_of_flow(self, original: cst.Call, made: cst.Call) -> tuple[str | None, bool]:
        func = made.func
        if isinstance(func, cst.Attribute) and func.attr.value in _STARTS:
            func = func.value
            return (
                (self._flow(original, func), True) if isinstance(func, cst.Call) else (None, False)
            )
        if not isinstance(func, cst.Call):
            return None, False
        if self._code(func.func) != "chord":
            return self._flow(original, func), True
        header, callback = self._group(func), [*_signatures(self, made.args)]
        if header is None or len(callback) != 1 or callback[0].link is None:
            self._note(original, "chord: write app.group([…]).then(callback.call)")
            return None, False
        return f"{header}.then({callback[0].link})", True

    def _flow(self, original: cst.CSTNode, made: cst.Call) -> str | None:
        kind = self._code(made.func)
        if kind not in _CANVAS:
            return None
        flow = self._group(made) if kind == "group" else None
        if kind == "chain":
            links = [*_signatures(self, made.args)]
            flow = chained(self._app, links) if len(links) == len(made.args) else None
        if flow is None:
            self._note(original, f"{kind}: write it as app.chain, app.group or app.flow")
        return flow

    def _group(self, made: cst.Call) -> str | None:
        """`group([a.s(1), …])`, `group(a.s(n) for n in …)` or `group(a.s(1), b.s(2))`."""
        if len(made.args) == 1 and isinstance(made.args[0].value, cst.GeneratorExp | cst.ListComp):
            loop = made.args[0].value
            one = _signature(self, loop.elt)
            if one is None:
                return None
            return f"{self._app}.group([{one.call} {self._code(loop.for_in).strip()}])"
        listed: Sequence[cst.Arg | cst.BaseElement] = made.args
        if len(made.args) == 1 and isinstance(made.args[0].value, cst.List | cst.Tuple):
            listed = made.args[0].value.elements
        calls = [_signature(self, one.value) for one in listed]
        if not calls or None in calls:
            return None
        return f"{self._app}.group([{', '.join(call.call for call in calls if call)}])"

    # ------------------------------------------------------------ tools

    @property
    def _is_async(self) -> bool:
        return bool(self._functions) and self._functions[-1].asynchronous is not None

    def _look(self, node: cst.CSTNode, code: str) -> None:
        if (advice := _MANUAL.get(code.rpartition(".")[2])) is not None:
            self._note(node, advice)

    def _note(self, node: cst.CSTNode, text: str) -> None:
        line = self.get_metadata(PositionProvider, node).start.line
        if Note(line, text) not in self.notes:
            self.notes.append(Note(line, text))

    def _code(self, node: cst.CSTNode) -> str:
        return self._module.code_for_node(node)


def _arguments(translator: _Translator, args: Sequence[cst.Arg]) -> CallArguments:
    code = translator._code  # noqa: SLF001 - a part of the translator
    return CallArguments(
        tuple(f"{arg.star}{code(arg.value)}" for arg in args if arg.keyword is None),
        {arg.keyword.value: code(arg.value) for arg in args if arg.keyword is not None},
    )


def _signatures(translator: _Translator, args: Sequence[cst.Arg]) -> Iterator[Signature]:
    for arg in args:
        if (found := _signature(translator, arg.value)) is not None:
            yield found


def _signature(translator: _Translator, made: cst.BaseExpression) -> Signature | None:
    if not isinstance(made, cst.Call) or not isinstance(made.func, cst.Attribute):
        return None
    if made.func.attr.value not in ("s", "si", "signature"):
        return None
    task = translator._code(made.func.value)  # noqa: SLF001
    return Signature(task, _arguments(translator, made.args), made.func.attr.value == "si")


def _with_imports(module: cst.Module, translator: _Translator) -> str:
    """The code, with the imports and the group of tasks that it needs, after its docstring and its
    imports from `__future__`."""
    lines = []
    if translator.names:
        lines.append(f"from mita import {', '.join(sorted(translator.names))}")
    if translator.needs_tasks:
        lines += ["", "tasks = Tasks()  # collect them with app.include(tasks)"]
    if not lines:
        return module.code
    at = 0
    for at, statement in enumerate(module.body):  # noqa: B007
        code = module.code_for_node(statement).strip()
        if not code.startswith(('"', "'", "from __future__")):
            break
    added = cst.parse_module("\n".join(lines) + "\n").body
    return module.with_changes(body=[*module.body[:at], *added, *module.body[at:]]).code
