// Missing permissions of an ordinary user are reported with a sentence and leave nothing behind. Root may do
// everything, so as root the tool runs as another user.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type CtlResult, type User, ctl, giveTo, ordinaryUser } from '../support/ctl.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const SNAPSHOT = 'group-0000.snapshot';
const DOCUMENT = readFileSync(join(REPO_ROOT, 'test', 'backup', 'golden', 'format-1', SNAPSHOT));
const READ_ONLY = 0o555;

const found = ordinaryUser();
const user: User = typeof found === 'string' ? {} : found;
const skip = typeof found === 'string' ? found : false;
const folder = temporaryFolder('permissions');

/** A node with one group. */
let node: Server;
/** Runs when the group is asked for. */
let onExport = (): void => undefined;
let config = '';

before(async () => {
  chmodSync(folder, 0o755);
  node = createServer((request, response) => {
    if (request.url?.endsWith('/info') === true)
      return void response.end(JSON.stringify({ format_version: 1, raft_group_count: 1 }));
    onExport();
    return void response.writeHead(200, { 'x-svc-backup-format': '1', 'x-svc-backup-commit-index': '1' }).end(DOCUMENT);
  });
  node.listen(0, '127.0.0.1');
  await once(node, 'listening');
  const { port } = node.address() as AddressInfo;
  config = join(folder, 'cluster.toml');
  writeFileSync(config, `[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = ${port}\n`);
});
after(() => {
  node.closeAllConnections();
  node.close();
  removeFolder(folder);
});

/** A folder of the user's own. */
function own(name: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  giveTo(user, path);
  return path;
}

const run = (...args: string[]): Promise<CtlResult> => ctl(args, { user, env: { MILLRACE_CLUSTER: '' } });
const create = (location: string): Promise<CtlResult> =>
  run('backup-create', '--config', config, '--location', location);

function failed({ code, stdout, stderr }: CtlResult, sentence: RegExp): void {
  const said = stderr.split('\n').filter((line) => line.startsWith('millracectl: '));
  assert.equal(said.length, 1, stderr);
  assert.match(said[0] as string, sentence);
  assert.deepEqual([code, stdout], [1, '']);
}

test('a cluster file and a file with a token that may not be read', { skip }, async () => {
  const secret = join(folder, 'secret.toml');
  cpSync(config, secret);
  giveTo(user, secret);
  chmodSync(secret, 0);
  failed(await run('status', '--config', secret), /secret\.toml cannot be read: permission denied$/);
  const token = await run('status', '--config', config, '--token-file', secret);
  assert.deepEqual([token.code, token.stdout], [2, '']);
  assert.match(token.stderr, /^millracectl: --token-file \S+ cannot be read: permission denied\n$/);
});

test('a directory that may not be written, made or listed', { skip }, async () => {
  const closed = own('closed');
  chmodSync(closed, READ_ONLY);
  failed(await create(closed), /closed cannot be used \(EACCES: permission denied, open /);
  failed(await create(join(closed, 'new')), /closed\/new cannot be used \(.*permission denied/);
  assert.deepEqual(readdirSync(closed), []);
  // A file may be there under the name by which the tool tries whether it may write.
  const used = own('used');
  writeFileSync(join(used, 'manifest.json.part'), 'mine');
  failed(await create(used), /used is not empty: it holds a backup that was not finished/);
  assert.equal(readFileSync(join(used, 'manifest.json.part'), 'utf8'), 'mine');
  const hidden = own('hidden');
  chmodSync(hidden, 0o333);
  failed(await create(hidden), /hidden cannot be used \(EACCES: permission denied, (scandir|opendir) /);
  assert.deepEqual(readdirSync(hidden), []);
});

test('a directory that may not be written any more when a group, or the manifest, comes', { skip }, async () => {
  const early = own('early');
  onExport = () => chmodSync(early, READ_ONLY);
  failed(
    await create(early),
    /early cannot be written \(EACCES: permission denied, open '[^']*'\) \(\S+early holds 0 of 1 groups and no manifest: remove what is there\)$/,
  );
  assert.deepEqual(readdirSync(early), ['manifest.json.part']);
  const late = own('late');
  // The group's file has its name already; that of the manifest is taken by a folder.
  onExport = () => {
    rmSync(join(late, 'manifest.json.part'));
    mkdirSync(join(late, 'manifest.json.part'));
  };
  failed(
    await create(late),
    /late cannot be written \(EISDIR: .*\) \(\S+late holds 1 of 1 groups and no manifest: remove /,
  );
  assert.deepEqual(readdirSync(late).toSorted(), [SNAPSHOT, 'manifest.json.part']);
  failed(await create(late), /late is not empty: it holds a backup that was not finished/);
  onExport = () => undefined;
});

test('a backup of which the directory, the manifest or a group may not be read', { skip }, async () => {
  const sound = own('sound');
  const created = await create(sound);
  assert.equal(created.code, 0, created.stderr);
  const verify = (): Promise<CtlResult> => run('backup-verify', '--location', sound);
  const denied = async (name: string, mode: number, sentence: RegExp): Promise<void> => {
    const path = join(sound, name);
    chmodSync(path, 0);
    failed(await verify(), sentence);
    chmodSync(path, mode);
  };
  await denied('', 0o755, /sound\/manifest\.json cannot be read \(EACCES: permission denied, stat /);
  await denied('manifest.json', 0o644, /sound\/manifest\.json cannot be read \(EACCES: permission denied, open /);
  await denied(SNAPSHOT, 0o644, new RegExp(`${SNAPSHOT} cannot be read \\(EACCES: permission denied, open `));
  // A user without list permission finds the parts of a backup by name.
  chmodSync(sound, 0o111);
  const verified = await verify();
  assert.equal(verified.code, 0, verified.stderr);
});

const givesAway = skip === false && user.uid === undefined ? 'only root gives files away' : skip;

/** A file of two tokens, made by root. */
async function tokens(place: string): Promise<string> {
  const file = join(place, 'tokens.toml');
  for (const id of ['one', 'two']) {
    const issued = await ctl(['token', 'issue', file, id, '--scopes', 'b:read']);
    assert.equal(issued.code, 0, issued.stderr);
  }
  return file;
}

function accessTo(path: string): readonly [uid: number, gid: number, mode: number] {
  const { uid, gid, mode } = statSync(path);
  return [uid, gid, mode & 0o777];
}

test('a file of tokens keeps the service that reads it, and a new one has its group', { skip: givesAway }, async () => {
  const { uid = 0, gid = 0 } = user;
  const etc = join(folder, 'etc');
  mkdirSync(etc);
  chownSync(etc, 0, gid);
  const file = await tokens(etc);
  assert.deepEqual(accessTo(file), [0, gid, 0o640]);
  chownSync(file, uid, 0);
  chmodSync(file, 0o460);
  assert.equal((await ctl(['token', 'revoke', file, 'one'])).code, 0);
  assert.deepEqual(accessTo(file), [uid, 0, 0o460]);
});

test('one who cannot keep owner and group of a file of tokens leaves it as it is', { skip: givesAway }, async () => {
  const place = own('theirs');
  const file = await tokens(place);
  chmodSync(file, 0o644);
  chownSync(file, 0, 0);
  const text = readFileSync(file, 'utf8');
  failed(
    await run('token', 'revoke', file, 'one'),
    /tokens\.toml cannot be written: owner 0 and group 0 are to stay, .* \(operation not permitted\)$/,
  );
  assert.deepEqual([readdirSync(place), readFileSync(file, 'utf8')], [['tokens.toml'], text]);
  // In a folder of a group that is not the user's.
  chownSync(place, 0, 0);
  chmodSync(place, 0o777);
  const mine = join(place, 'mine.toml');
  assert.equal((await run('token', 'issue', mine, 'one', '--scopes', 'b:read')).code, 0);
  assert.deepEqual(accessTo(mine), [user.uid, user.gid, 0o600]);
});
