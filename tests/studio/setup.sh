#!/usr/bin/env bash
# Gets what the studio's tests need: Chromium and its driver from Debian's archive (as root), and, below target/, promtool
# without the server that it comes with, schemathesis from PyPI, axe-core and Lighthouse from npm's registry. Does nothing where all is there.
set -euo pipefail
install() { bash tests/install.sh "$@"; }
missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v npm >/dev/null || missing+=(npm)
command -v chromedriver >/dev/null || missing+=(chromium-driver)
# A font, or pages have no text.
compgen -G '/usr/share/fonts/truetype/*' >/dev/null || missing+=(fonts-dejavu-core)
((${#missing[@]} == 0)) || install "${missing[@]}"
if [[ ! -x target/prometheus/usr/bin/promtool ]]; then
    mkdir -p target/prometheus
    [[ -n $(apt-cache policy prometheus | grep -v none | grep Candidate) ]] || apt-get update -qq
    (cd target/prometheus && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm -f prometheus_*.deb)
fi
if [[ ! -x target/schemathesis/bin/st ]]; then
    python3 -m venv target/schemathesis 2>/dev/null || { install python3-venv && python3 -m venv --clear target/schemathesis; }
    target/schemathesis/bin/pip install --quiet --disable-pip-version-check 'schemathesis==4.32.5'
fi
axe=4.14.1
if ! grep -q "\"version\": \"$axe\"" target/axe/node_modules/axe-core/package.json 2>/dev/null; then
    npm install --silent --no-audit --no-fund --no-save --prefix target/axe "axe-core@$axe" >/dev/null
fi
lighthouse=13.5.0
if ! grep -q "\"version\": \"$lighthouse\"" target/lighthouse/node_modules/lighthouse/package.json 2>/dev/null; then
    npm install --silent --no-audit --no-fund --no-save --prefix target/lighthouse "lighthouse@$lighthouse" >/dev/null
fi
