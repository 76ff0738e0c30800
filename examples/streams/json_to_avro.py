"""From JSON to Avro (A3 DP2): the same records, typed and small. What does not fit the schema is put aside."""

from ottla.streams import App, Avro, DeadLetters, Json

app = App("json-to-avro", on_error=DeadLetters("customers_that_do_not_fit"))

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}

customers = app.stream("customers_json", value=Json("id bigint not null, name string not null"))
customers.to("customers_avro", value=Avro(CUSTOMER))

if __name__ == "__main__":
    app.run()
