"""The application that a file makes.

The file is imported, not run: what stands under `if __name__ == "__main__":` is left out, and there its `app.run()`
belongs. It may import other files from its own directory. Its functions travel to Spark's workers by value, as those
of a program that Python runs itself.
"""

from __future__ import annotations

import sys
import sysconfig
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla.cli.common.invocation import Failure, Misconfigured
from ottla.cli.common.options import is_given

if TYPE_CHECKING:
    from ottla.streams.app import App

NO_SESSION = "SparkContext or SparkSession should be created first"


def loaded(file: str, name: str | None = None, *, application_id: str | None = None, **settings: Any) -> App:
    """The application of a file, the one of that name where there are several, with other settings where given."""
    from ottla.pipelines.requirements import check_packages

    check_packages()
    path = Path(file)
    if not path.is_file():
        raise Misconfigured(f"there is no file {file}" if not path.exists() else f"{file} is no file")
    app = _chosen(_imported(path), file, name)
    if application_id is not None:
        app.rename(application_id)
    changes = {key: value for key, value in settings.items() if is_given(value)}
    if changes:
        app.change(**changes)
    return app


def _chosen(module: ModuleType, file: str, name: str | None) -> App:
    from ottla.streams.app import App

    found = {variable: value for variable, value in vars(module).items() if isinstance(value, App)}
    if name is not None:
        if name not in found:
            there = f"; there are {', '.join(found)}" if found else ""
            raise Failure(f"{file} has no application {name}{there}")
        return found[name]
    if not found:
        raise Failure(f"{file} makes no application: app = App(…) at its top level is wanted")
    if len({id(app) for app in found.values()}) > 1:
        raise Failure(f"{file} makes several applications: choose one of {', '.join(found)} by --app")
    return next(iter(found.values()))


def _imported(path: Path) -> ModuleType:
    from pyspark import cloudpickle

    from ottla.pipelines.errors import PipelineError
    from ottla.streams.app import not_to_be_started

    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.append(directory)  # last: a file named as a module is not taken for it
    module_name = f"{path.stem}__application"  # a name that no other module has
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise Misconfigured(f"{path} is no file of Python: its name does not end with .py")
    module = module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with not_to_be_started("it runs when its file is imported: put that under if __name__ == '__main__':"):
            spec.loader.exec_module(module)
    except PipelineError as error:
        line = _line_of(error, path)
        raise Failure(f"{path}{f', line {line}' if line else ''}: {error}") from None
    except SystemExit as error:
        raise Failure(f"{path} ends Python when it is imported (status {error.code})") from None
    except Exception as error:
        raise Failure(f"{path} cannot be imported\n{_own_traceback(error, path)}{_hint(error)}") from None
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _line_of(error: BaseException, path: Path) -> int | None:
    """The last line of the file itself on the way to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if _same(frame.filename, path)), None)


def _own_traceback(error: Exception, path: Path) -> str:
    """The traceback without what is Python's, ottla's and other packages' own."""
    told = traceback.TracebackException.from_exception(error)
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if _is_users(frame.filename, path)])
    told.__cause__ = told.__context__ = None
    return "".join(told.format()).rstrip()


def _is_users(file: str, path: Path) -> bool:
    if _same(file, path):
        return True
    places = [Path(__file__).resolve().parents[2], *(Path(one) for one in sysconfig.get_paths().values())]
    return not file.startswith("<") and not any(Path(file).resolve().is_relative_to(place) for place in places)


def _same(file: str, path: Path) -> bool:
    return Path(file).resolve() == path.resolve()


def _hint(error: Exception) -> str:
    if NO_SESSION not in str(error):
        return ""
    return "\nThere is no Spark yet: write the column as text, or as native(lambda value: F.upper(value))"
