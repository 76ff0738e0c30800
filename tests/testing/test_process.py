import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.testing import BrokerFailed, BrokerProcess, process

pytest_plugins = ["pytester"]


def answers(broker: BrokerProcess) -> bool:
    with socket.create_connection(broker.addresses[0], timeout=10):
        return True


def test_a_broker_serves_on_a_free_port_as_soon_as_it_is_started(ottla_broker: BrokerProcess) -> None:
    assert ottla_broker.bootstrap == f"127.0.0.1:{ottla_broker.port}"
    assert ottla_broker.is_running
    assert ottla_broker.pid > 0
    assert answers(ottla_broker)


def test_a_restart_keeps_data_and_port(ottla_broker: BrokerProcess) -> None:
    bootstrap, pid, files = ottla_broker.bootstrap, ottla_broker.pid, set(ottla_broker.data_dir.iterdir())
    ottla_broker.restart()
    assert ottla_broker.bootstrap == bootstrap
    assert ottla_broker.pid != pid
    assert files <= set(ottla_broker.data_dir.iterdir()) | {ottla_broker.data_dir / ".lock"}
    assert answers(ottla_broker)


def test_its_port_is_none_that_an_outgoing_connection_could_take_during_a_restart(ottla_broker: BrokerProcess) -> None:
    with socket.create_connection(ottla_broker.addresses[0], timeout=10) as outgoing:
        assert ottla_broker.port < int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        assert ottla_broker.port < outgoing.getsockname()[1]


def test_a_port_that_somebody_takes_at_the_same_moment_is_not_insisted_on(
    ottla_broker: BrokerProcess, ottla_broker_factory: Callable[..., BrokerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = iter([ottla_broker.port, ottla_broker.port, 0])
    monkeypatch.setattr(process, "_free_port", lambda: next(ports))
    assert ottla_broker_factory().port != ottla_broker.port


def test_a_killed_broker_can_be_started_again(ottla_broker: BrokerProcess) -> None:
    ottla_broker.kill()
    assert not ottla_broker.is_running
    ottla_broker.start()
    assert answers(ottla_broker)


def test_a_clean_stop_has_status_0(ottla_broker: BrokerProcess) -> None:
    assert ottla_broker.stop() == 0
    assert not ottla_broker.is_running


def test_several_brokers_run_side_by_side(ottla_broker_factory: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    one = ottla_broker_factory(tmp_path / "one", {"node.id": "1"})
    two = ottla_broker_factory(tmp_path / "two", {"node.id": "2"})
    assert one.port != two.port
    assert answers(one)
    assert answers(two)
    assert (tmp_path / "one").is_dir()


def test_every_listener_has_its_address(ottla_broker_factory: Callable[..., BrokerProcess]) -> None:
    broker = ottla_broker_factory(
        overrides={
            "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        }
    )
    ports = [port for _, port in broker.addresses]
    assert len(set(ports)) == 2
    broker.restart()
    assert [port for _, port in broker.addresses] == ports


def test_the_shared_broker_serves(ottla_shared_broker: BrokerProcess) -> None:
    assert answers(ottla_shared_broker)


def test_a_broker_that_does_not_start_says_why() -> None:
    broker = BrokerProcess(overrides={"num.partitions": "0"})
    with pytest.raises(BrokerFailed, match=r"status 2 before it was ready\n.*num\.partitions=0 is illegal"):
        broker.start()
    assert not broker.is_running
    broker.close()


def test_a_broker_that_is_not_started_cannot_be_stopped() -> None:
    broker = BrokerProcess()
    with pytest.raises(BrokerFailed, match="not started"):
        broker.stop()
    broker.close()


def test_a_test_whose_broker_died_has_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, signal
        def test_it(ottla_broker):
            os.kill(ottla_broker.pid, signal.SIGKILL)
            ottla_broker._process.wait()
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*BrokerFailed: broker ended with status -9*"])


def test_the_temporary_directory_goes_with_the_broker() -> None:
    with BrokerProcess() as broker:
        directory = broker.data_dir
        assert directory.is_dir()
    assert not directory.parent.exists()
