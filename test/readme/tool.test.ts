// The documents about streams, contexts and moving, executed against one node. Changed are only
// things of the machine: /etc is a folder of the test, and the node has other ports.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { CTL_ENTRY } from '../support/ctl.ts';
import { readDocument } from '../support/documents.ts';
import { removeFolder, run, temporaryFolder, withServer, within } from '../support/server.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { keepsPromise, parseSteps, shellBlocks } from './shell-block.ts';

/** In this order: the last one moves what the first one made. */
const SECTIONS = [
  ['src/operator/streams/README.md', '# Streams, buckets and contexts'],
  ['src/operator/streams/README.md', '## How fast is this cluster?'],
  ['src/operator/streams/README.md', '## Contexts'],
  ['src/operator/moving/README.md', '# Moving in and out'],
] as const;

test('the documents about the tool work as written', async () => {
  const folder = temporaryFolder('tool');
  try {
    await withServer({ cores: 1, groups: 4 }, async (server) => {
      const etc = join(folder, 'etc/millrace');
      mkdirSync(etc, { recursive: true });
      writeFileSync(join(etc, 'cluster.toml'), `[[nodes]]\nid = 1\nadmin_url = "${server.adminUrl}"\n`);
      writeFileSync(join(folder, 'events.jsonl'), '{"n":1}\n{"n":2}\n{"n":3}\n');
      writeFileSync(join(folder, 'millracectl'), `#!/bin/sh\nexec '${process.execPath}' '${CTL_ENTRY}' "$@"\n`);
      chmodSync(join(folder, 'millracectl'), 0o755);
      const env = {
        ...{ PATH: `${folder}:${process.env['PATH']}`, XDG_CONFIG_HOME: folder, MILLRACE_URL: server.url },
        ...{ MILLRACE_CLUSTER: '', MILLRACE_CONTEXT: '' },
      };
      const steps = SECTIONS.flatMap(([path, heading]) => parseSteps(shellBlocks(readDocument(path), heading)));
      for (const { command, output } of steps) {
        // Lines on stderr are progress.
        const local = `{ ${command.replaceAll(' /etc/', ` ${folder}/etc/`)}\n} 2>/dev/null`;
        const attempt = run(['sh', '-c', local], env, folder);
        assert.equal(await within(attempt.exited, PATIENCE_MS, command), 0, `${command}\n${attempt.output()}`);
        assert(
          output !== undefined && keepsPromise(attempt.output(), output),
          `${command} prints\n${attempt.output()}`,
        );
      }
    });
  } finally {
    removeFolder(folder);
  }
});
