# Everything a person or CI runs. `make build` leaves build/release/plimsoll.
.PHONY: demo test build bench fuzz format lint clean
.DEFAULT_GOAL := build

# From a clean clone to a trained model, about two minutes of training.
demo:
	@tools/demo

# Lint, all tests, sanitizers, fuzz and benchmark smoke. One part: make test ONLY=ops
test:
	@tools/run_tests $(if $(ONLY),--only $(ONLY))

build:
	@tools/build release

# One benchmark, its last line is JSON: make bench NAME=startup [ARGS=--smoke]
bench:
	@tools/bench $(NAME) $(ARGS)

# A minute for each reader of foreign bytes. SECONDS_EACH=10 for less.
fuzz:
	@tools/fuzz $(or $(SECONDS_EACH),60)

format:
	@tools/lint --fix-format

lint:
	@tools/lint && tools/check_neutral && tools/check_layers

clean:
	rm -rf build
