"""Error codes as clients know them."""

from ottla.protocol.errors import ErrorCode, MalformedMessage, ProtocolError, UnencodableValue, UnsupportedVersion


def test_codes_run_without_gaps_from_unknown_to_the_newest():
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


def test_codes_are_integers_with_kafkas_numbers():
    assert ErrorCode.NONE == 0
    assert ErrorCode.UNKNOWN_SERVER_ERROR == -1
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.UNSUPPORTED_VERSION == 35
    assert ErrorCode.UNKNOWN_TOPIC_ID == 100
    assert ErrorCode.REBOOTSTRAP_REQUIRED == 129


def test_a_code_says_whether_to_try_again_and_what_happened():
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.REBALANCE_IN_PROGRESS.retriable
    retriable = "2 3 5 6 7 9 13 14 15 16 19 20 41 51 56 70 71 72 74 75 78 80 83 84 88 89 100 103 106 122 123 133"
    assert [int(code) for code in ErrorCode if code.retriable] == [int(code) for code in retriable.split()]
    assert all((code.message and code.message[0].islower()) or "SASL" in code.message for code in ErrorCode)


def test_all_errors_of_the_package_share_a_base():
    for error in (MalformedMessage, UnencodableValue, UnsupportedVersion):
        assert issubclass(error, ProtocolError)
