// The release: what a tag has to agree with, and the workflow. No parser of GitHub's runs on every Node that serves, so
// what a workflow may have is listed here.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { releaseNotes } from '../../scripts/release.ts';
import { REPO_ROOT } from '../support/paths.ts';

const WORKFLOW = '.github/workflows/release.yml';
const text = readFileSync(join(REPO_ROOT, WORKFLOW), 'utf8');

const STEP = new Set(['name', 'uses', 'with', 'run', 'env']);
const JOB = new Set(['needs', 'runs-on', 'timeout-minutes', 'permissions', 'steps']);

interface Step {
  readonly uses?: string;
  readonly run?: string;
}

interface Job {
  readonly needs?: string;
  readonly permissions: Readonly<Record<string, string>>;
  readonly steps: readonly Step[];
}

interface Workflow {
  readonly on: object;
  readonly permissions: object;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflow = parse(text) as Workflow;
const steps = Object.values(workflow.jobs).flatMap((job) => job.steps);

test('the workflow is one, and nothing in it moves by itself', () => {
  assert.deepEqual(Object.keys(workflow), ['name', 'on', 'permissions', 'jobs']);
  assert.deepEqual(workflow.on, { push: { tags: ['v*'] } });
  assert.deepEqual(workflow.permissions, {}, 'each job asks for its own');
  for (const [name, job] of Object.entries(workflow.jobs)) {
    assert.deepEqual(
      Object.keys(job).filter((key) => !JOB.has(key)),
      [],
    );
    if (name !== 'check') assert.equal(job.needs, 'check', `${name} releases what was checked`);
  }
  for (const step of steps) {
    assert.deepEqual(
      Object.keys(step).filter((key) => !STEP.has(key)),
      [],
    );
    assert.equal(step.uses === undefined, step.run !== undefined);
    if (step.uses !== undefined) assert.match(step.uses, /^actions\/[\w-]+@[0-9a-f]{40}$/);
    if (step.run === undefined) continue;
    const { status, stderr } = spawnSync('bash', ['-n', '-c', step.run], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  }
  assert.equal(workflow.jobs['package']?.permissions['id-token'], 'write', 'provenance is signed with it');
});

test('the workflow runs programs and arguments that are there', () => {
  const all = steps.map(({ run = '' }) => run).join('\n');
  for (const [, path = ''] of all.matchAll(/ (scripts\/\S+)/g))
    assert(existsSync(join(REPO_ROOT, path.replace(/^scripts\/(release)\.js$/, 'scripts/$1.ts'))), path);
  const manifest = JSON.parse(readFileSync(join(REPO_ROOT, 'package.json'), 'utf8')) as Record<string, unknown>;
  for (const [, script = ''] of all.matchAll(/npm run ([\w-]+)/g))
    assert(Object.hasOwn(manifest['scripts'] as object, script), script);
  assert.match(
    readFileSync(join(REPO_ROOT, 'scripts/docker/Dockerfile'), 'utf8'),
    /^ARG NODE_IMAGE=node:22-bookworm-slim$/m,
  );
  assert.match(all, /--build-arg "NODE_IMAGE=\$base@\$digest"/);
  assert.match(all, /--sbom=true --provenance=mode=max/);
  assert.deepEqual(manifest['publishConfig'], { access: 'public', provenance: true });
  for (const name of ['description', 'keywords', 'author', 'license', 'engines', 'exports', 'files'])
    assert.notEqual(manifest[name], undefined, name);
  assert.equal(manifest['private'], undefined);
});

test('notes of a release are its section of the changelog; tag, version and changelog agree', () => {
  const changelog =
    '# Changelog\n\n## Unreleased\n\n- c\n\n## 1.2.0 (2026-11-26)\n\n- b\n\n### Fixed\n\n- d\n\n## 1.2.00\n\n- x\n\n## 1.1.0\n\n## 1.0.0\n';
  assert.equal(releaseNotes('v1.2.0', '1.2.0', changelog), '- b\n\n### Fixed\n\n- d\n');
  assert.throws(
    () => releaseNotes('v1.3.0', '1.2.0', changelog),
    /the tag is v1\.3\.0, and package\.json says 1\.2\.0: expected v1\.2\.0/,
  );
  assert.throws(() => releaseNotes('v1.3.0', '1.3.0', changelog), /no section "## 1\.3\.0": rename "## Unreleased"/);
  assert.throws(() => releaseNotes('v1.1.0', '1.1.0', changelog), /the section "## 1\.1\.0" of CHANGELOG\.md is empty/);
});
