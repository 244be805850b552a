// The page of the API: all that programs can import stands there, and nothing that they cannot use.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as assistant from '../../src/client/assistant-stream.ts';
import * as client from '../../src/client/client.ts';
import * as resumable from '../../src/client/resumable-stream.ts';
import * as web from '../../src/client/web-streams.ts';
import * as workflow from '../../src/client/workflow-streams.ts';
import * as world from '../../src/client/workflow-world.ts';
import { REPO_ROOT } from '../support/paths.ts';

test('the page of the API declares what the modules of the package export, and how it is called', () => {
  const page = readFileSync(join(REPO_ROOT, 'src/client/api.md'), 'utf8');
  for (const module of [client, resumable, assistant, web, workflow, world]) {
    for (const name of Object.keys(module)) assert.match(page, new RegExp(`^(?:class|function) ${name}\\b`, 'm'));
  }
  for (const name of ['FollowedBatch', 'StableProducer', 'MillraceResumableStreamContext', 'WorkflowStreamer'])
    assert(page.includes(`\ninterface ${name} {\n`), name);
  assert(page.includes('\n  append(data: Uint8Array | string, options?: AppendOptions): Promise<number>;\n'));
  assert.match(page, /\* Everything from an offset on, without a gap/);
  assert.doesNotMatch(page, /#private|constructor\(|^export /m);
});
