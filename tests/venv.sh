#!/usr/bin/env bash
# Environments of Python that tests need; to be sourced.
#
#   python_venv FOLDER "MODULE, ..." PIP_ARGUMENT...
#
# makes one with what pip installs from PyPI, if it is not there with these modules. Parts of `make test` run beside each other, and two of
# them share one: the second waits.
python_venv() {
    local venv=$1 modules=$2
    shift 2
    exec 9>"$venv.lock"
    flock 9
    if ! "$venv/bin/python" -c "import $modules" 2>/dev/null; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$@"
    fi
    exec 9>&-
}
