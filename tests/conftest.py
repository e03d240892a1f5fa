"""Shows at the end of a test run what the processes of the end-to-end tests did, in figures."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = [
        (report.nodeid.rpartition("::")[2], text)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, text in report.user_properties
        if name == "told"
    ]
    if told:
        terminalreporter.section("what the processes did")
        for test, text in told:
            terminalreporter.write_line(f"{test}: {text}")
