"""Which processes are gone."""

import subprocess
import sys

from msgspec.structs import replace

from lakeindex.table.host import is_gone, this_host, this_process
from lakeindex.timeline.clock import SystemClock


def test_this_process_is_here() -> None:
    assert not is_gone(this_process())
    assert this_host().process == this_process()
    assert this_host().new_token() != this_host().new_token()


def test_an_ended_process_is_gone_even_before_its_parent_collects_it() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    process = replace(this_process(), pid=child.pid, started="")
    child.wait()
    assert is_gone(process)


def test_a_zombie_counts_as_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = replace(this_process(), pid=child.pid, started="")
    assert not is_gone(process)
    child.kill()
    while not is_gone(process):  # killed, not yet waited for
        SystemClock().sleep(0.01)
    child.communicate()
    assert is_gone(process)


def test_a_number_that_was_given_out_again_is_another_process() -> None:
    assert is_gone(replace(this_process(), started="1"))


def test_nothing_is_known_of_other_hosts() -> None:
    assert not is_gone(replace(this_process(), host="elsewhere:boot:ns", pid=2**22 - 1))
    assert str(replace(this_process(), host="elsewhere:boot:ns", pid=7)) == "process 7 on elsewhere"


def test_a_fork_asks_again_who_it_is() -> None:
    """It may have the number of a process that is gone, of which it would know the start."""
    program = """
import os
from lakeindex.table import host
host.this_process()
if os.fork() == 0:
    os._exit(host._own_start_time.cache_info().currsize)
print(host._own_start_time.cache_info().currsize, os.waitstatus_to_exitcode(os.wait()[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1 0\n"
