"""What the tests of the protocol share."""

import pytest

from support.strategies import message_strategy


@pytest.fixture(scope="session")
def messages_of():
    """The function `message_strategy`."""
    return message_strategy
