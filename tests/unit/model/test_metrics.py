"""The table of metrics, where types cannot show that it is whole."""

from cases import for_each
from golden import run_with_everything

from pytest_gpuperf.gate import metric_values
from pytest_gpuperf.model.metrics import METRICS, TABLE


@for_each("metric", METRICS)
def test_each_metric_has_a_row_and_is_found_where_it_says(metric):
    row, records = TABLE[metric], run_with_everything().records
    assert any(metric_values.has(record, metric) for record in records)
    for place in filter(None, (row.place, row.at_least, row.at_most)):
        assert any(metric_values.at(record, place) is not None for record in records)
