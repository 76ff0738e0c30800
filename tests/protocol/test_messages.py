"""Message classes: what a caller sees of the tables."""

import subprocess
import sys

import pytest

import ottla.protocol.messages as messages
from ottla.protocol.messages import FetchResponse, HeartbeatRequest, MetadataRequest, MetadataResponse, ProduceRequest
from ottla.protocol.schema import message_names
from ottla.protocol.stubs import PATH, stub_text


def test_the_stub_file_is_in_step_with_the_tables():
    with open(PATH, encoding="utf-8") as file:
        assert file.read() == stub_text(), "run python -m ottla.protocol.stubs"


def test_a_constructor_takes_keywords_and_fills_in_the_defaults():
    request = MetadataRequest(topics=None)
    assert request.topics is None
    assert request.allow_auto_topic_creation is True
    with pytest.raises(TypeError):
        MetadataRequest([])
    with pytest.raises(TypeError):
        MetadataRequest(topic=[])


def test_lists_and_structs_by_default_are_not_shared():
    MetadataRequest().topics.append(MetadataRequest.Topic())
    assert MetadataRequest().topics == []
    FetchResponse.Partition().current_leader.leader_id = 3
    assert FetchResponse.Partition().current_leader.leader_id == -1


def test_messages_compare_by_value_and_class():
    assert MetadataRequest.Topic(name="a") == MetadataRequest.Topic(name="a")
    assert MetadataRequest.Topic(name="a") != MetadataRequest.Topic(name="b")
    assert MetadataRequest.Topic() != MetadataResponse.Topic()
    assert ProduceRequest.Partition(records=memoryview(b"x")) == ProduceRequest.Partition(records=b"x")
    with pytest.raises(TypeError):
        hash(MetadataRequest())


def test_there_is_no_room_for_a_misspelt_field():
    with pytest.raises(AttributeError):
        HeartbeatRequest().group = "g"


def test_repr_shows_what_differs_from_the_defaults_and_can_be_read_back():
    message = MetadataResponse(topics=[MetadataResponse.Topic(name="t", error_code=3)], cluster_id="c")
    assert repr(message) == (
        "MetadataResponse(cluster_id='c', topics=[MetadataResponse.Topic(error_code=3, name='t')])"
    )
    assert eval(repr(message)) == message
    assert repr(ProduceRequest.Partition(records=memoryview(b"x"))) == "ProduceRequest.Partition(records=b'x')"


def test_the_module_lists_its_messages_and_names_what_it_lacks():
    assert set(message_names()) <= set(dir(messages))
    assert messages.MetadataRequest is MetadataRequest
    with pytest.raises(AttributeError, match="no message NoSuchRequest"):
        messages.NoSuchRequest  # noqa: B018
    with pytest.raises(ImportError):
        from ottla.protocol.messages import AlsoMissingResponse  # noqa: F401


def test_importing_the_package_reads_no_table_and_little_else():
    code = (
        "import sys, ottla.protocol.apis, ottla.protocol.messages, ottla.protocol.schema as s; "
        "assert not s._loaded; "
        "print(*sorted({'typing', 're', 'pathlib', 'dataclasses', 'inspect', 'asyncio'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"],
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert run.stdout.strip() == ""
