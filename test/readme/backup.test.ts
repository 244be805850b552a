// Every command of src/operator/README.md "Backup and restore", executed in its order: three nodes are backed up, one
// other is the drill cluster. Changed are only things of the machine: /etc and /var are folders of the test.
import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { withCluster } from '../support/cluster.ts';
import { CTL_ENTRY, clusterToml, scratchFile } from '../support/ctl.ts';
import { readDocument } from '../support/documents.ts';
import { removeFolder, run, temporaryFolder, within, withServer } from '../support/server.ts';
import { parseSteps, shellBlocks } from './shell-block.ts';

const README = readDocument('src/operator/README.md');
const STEP_TIMEOUT_MS = 120_000;
const STREAMS = 24;
/** The document has 16. */
const GROUPS = 4;

test('every command of "Backup and restore" in src/operator/README.md works as written', async () => {
  const folder = temporaryFolder('backup-readme');
  for (const path of ['bin', 'etc/millrace', 'var/backups']) mkdirSync(join(folder, path), { recursive: true });
  const script = join(folder, 'bin', 'millracectl');
  writeFileSync(script, `#!/bin/sh\nexec ${process.execPath} ${CTL_ENTRY} "$@"\n`);
  chmodSync(script, 0o755);
  await withCluster({ groups: GROUPS }, async (cluster) => {
    await withServer({ cores: 1, groups: GROUPS }, async (drill) => {
      const config = scratchFile('cluster.toml', clusterToml(cluster));
      const target = `[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = ${drill.adminPort}\n`;
      copyFileSync(scratchFile('drill.toml', target), join(folder, 'etc/millrace/drill.toml'));
      const nameOf = (i: number): string => `/drill/stream-${i}`;
      for (let i = 0; i < STREAMS; i++) {
        const node = cluster.node(cluster.ids[i % cluster.ids.length] as number);
        await node.client.create(nameOf(i), { 'content-type': 'text/plain' }, `body ${i}`);
      }
      const env = { PATH: [join(folder, 'bin'), process.env['PATH'] ?? ''].join(delimiter), MILLRACE_CLUSTER: config };
      const steps = parseSteps(shellBlocks(README, '## Backup and restore'));
      assert.equal(steps.length, 6);
      for (const { command } of steps) {
        const here = command
          .replace('--expected-groups 16', `--expected-groups ${GROUPS}`)
          .replaceAll(/(?<![\w/])\/(etc|var)\//g, `${folder}/$1/`);
        const attempt = run(['sh', '-c', here], env);
        const code = await within(attempt.exited, STEP_TIMEOUT_MS, command);
        assert.equal(code, 0, `${command}\n${attempt.output()}`);
        assert.doesNotMatch(attempt.output(), /Warning/, command);
      }
      for (let i = 0; i < STREAMS; i++) {
        assert.equal((await drill.client.expect(200, 'GET', nameOf(i))).body.toString(), `body ${i}`);
      }
    });
  });
  removeFolder(folder);
});
