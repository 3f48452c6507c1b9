#!/usr/bin/env bash
# Builds docs/ as a site in dist/site, where no link and no anchor may lead nowhere. Installs mkdocs into .tools the first time.
set -euo pipefail
cd "$(dirname "$0")"
venv=../../.tools/site
if ! cmp -s requirements.txt "$venv/requirements.txt"; then
	rm -rf "$venv"
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
	cp requirements.txt "$venv"
fi
PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 "$venv/bin/mkdocs" build -f mkdocs.yml
