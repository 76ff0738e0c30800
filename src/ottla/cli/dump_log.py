"""`ottla dump-log --files FILE[,FILE]…`: what lies in a log's files, as Kafka's DumpLogSegments prints it.

Reads the files only, so it may run beside the broker. Status 1 when a file is damaged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import click

from ottla.cli.common.coordinator_records import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    UnknownRecord,
    UnreadableRecord,
    read,
    with_protocol_opened,
)
from ottla.cli.common.invocation import Failure
from ottla.cli.common.options import Tool, int32, int64
from ottla.storage import dump

STRING = "org.apache.kafka.tools.api.StringDecoder"


def _integer(size: int) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        if len(data) != size:
            raise dump.Undumpable(f"a key or value of {len(data)} bytes is no integer of {size} bytes")
        return str(int.from_bytes(data, "big", signed=True))

    return read


DECODERS: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": dump.text,
    "DefaultDecoder": bytes.hex,
    "IntegerDecoder": _integer(4),
    "LongDecoder": _integer(8),
}


def _decoder(name: str | None) -> Callable[[bytes], str]:
    """The decoder of this class name, with or without its package."""
    found = DECODERS.get((name or STRING).rpartition(".")[2])
    if found is None:
        raise click.UsageError(f"no decoder {name}: there are {', '.join(DECODERS)}")
    return found


def _of_coordinators(kinds: dict[int, str]) -> Callable[[int, bytes | None, bytes | None], tuple[str, str | None]]:
    """Shows records of a coordinator's topic as Kafka's decoders do."""

    def show(offset: int, key: bytes | None, value: bytes | None) -> tuple[str, str | None]:
        if key is None:
            raise dump.Undumpable(
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
            )
        try:
            record = with_protocol_opened(read(kinds, key, value))
        except UnknownRecord as error:
            return f"{error} at offset {offset}, skipping.", None
        except UnreadableRecord as error:
            return f"Error at offset {offset}, skipping. {error}", None
        shown = _json({"type": str(record.kind), "data": record.key})
        if record.value is None:
            return shown, "<DELETE>"
        return shown, _json({"version": str(record.version), "data": record.value})

    return show


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@click.command("dump-log", cls=Tool, short_help="Show what lies in the files of a log.")
@click.option("--files", required=True, metavar="FILE[,FILE]...", help="Files of logs, with commas between them.")
@click.option("--print-data-log", is_flag=True, help="Show keys and values too; means --deep-iteration.")
@click.option("--deep-iteration", is_flag=True, help="Show the records in the batches.")
@click.option("--skip-record-metadata", is_flag=True, help="Show of records nothing but keys and values.")
@click.option("--index-sanity-check", is_flag=True, help="Only check that an index can be used, as a broker does.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with their logs, show only what does not fit.")
@click.option("--key-decoder-class", is_flag=False, flag_value=STRING, metavar="CLASS", help="What keys are.")
@click.option("--value-decoder-class", is_flag=False, flag_value=STRING, metavar="CLASS", help="What values are.")
@click.option("--offsets-decoder", is_flag=True, help="Show the records of __consumer_offsets as JSON.")
@click.option("--transaction-log-decoder", is_flag=True, help="Show the records of __transaction_state as JSON.")
@click.option("--max-bytes", type=int64(0), default=dump.NO_LIMIT, help="Stop after so many bytes of a log.")
@click.option(
    "--max-message-size",
    type=int32(0),
    default=dump.MAX_MESSAGE_SIZE,
    show_default=True,
    help="Largest batch that an index may point to.",
)
def command(
    files: str,
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    max_bytes: int,
    max_message_size: int,
) -> None:
    """Show what lies in the files of a log: .log, .index, .timeindex, .snapshot, .txnindex.

    Prints what Kafka's DumpLogSegments prints. Decoders are StringDecoder, IntegerDecoder, LongDecoder and
    DefaultDecoder (hexadecimal), with or without a package before them. The files are only read: a broker may be
    running on them.
    """
    if offsets_decoder and transaction_log_decoder:
        raise click.UsageError("--offsets-decoder and --transaction-log-decoder cannot go together")
    kinds = GROUP_RECORDS if offsets_decoder else TRANSACTION_RECORDS if transaction_log_decoder else None
    print_data = any([print_data_log, kinds, key_decoder_class is not None, value_decoder_class is not None])
    options = dump.Options(
        deep=deep_iteration or print_data,
        print_data=print_data,
        skip_record_metadata=skip_record_metadata,
        sanity_check_only=index_sanity_check,
        verify_only=verify_index_only,
        max_bytes=max_bytes,
        max_message_size=max_message_size,
        key=_decoder(key_decoder_class),
        value=_decoder(value_decoder_class),
        record=_of_coordinators(kinds) if kinds else None,
    )
    damaged = _show([Path(name) for name in files.split(",")], options)
    if damaged:
        more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        raise Failure(damaged[0] + more)


def _show(files: list[Path], options: dump.Options) -> list[str]:
    """Dump the files to stdout, what does not fit to stderr; returns what is damaged."""
    findings = dump.Findings()
    for file in files:
        sys.stdout.write(f"Dumping {file}\n")
        try:
            for line in dump.dump(file, options, findings):
                sys.stdout.write(line + "\n")
        except dump.UnknownFile as error:
            click.echo(str(error), err=True)
        except dump.Undumpable as error:
            findings.damage.append(str(error))
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            findings.damage.append(f"cannot read {error.filename or file}: {error.strerror}")
    sys.stdout.flush()
    for line in findings.lines():
        click.echo(line, err=True)
    return findings.damaged()
