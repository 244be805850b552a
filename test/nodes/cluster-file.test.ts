import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatOf, parseClusterFile, readClusterFile } from '../../src/nodes/cluster-file.ts';
import { scratchFile } from '../support/ctl.ts';

const TOML = `
[[nodes]]
id = 1
host = "10.0.0.1"
rack = "ignored"
[[nodes]]
id = 2
http_url = "http://node-two:4437/"
admin_port = 5000
[[nodes]]
id = 3
host = "  "
admin_url = "https://[::1]:6000"
name = "third"
instance_id = "i-3"
[provider]
restart_cmd = "ssh {host} restart"
`;

const nodes = [
  { id: 1, host: '10.0.0.1', name: 'node-1', instanceId: '', adminUrl: 'http://10.0.0.1:4438', httpUrl: undefined },
  {
    id: 2,
    host: 'node-two',
    name: 'node-2',
    instanceId: '',
    adminUrl: 'http://node-two:5000',
    httpUrl: 'http://node-two:4437',
  },
  { id: 3, host: '::1', name: 'third', instanceId: 'i-3', adminUrl: 'https://[::1]:6000', httpUrl: undefined },
];

const WRITTEN = {
  nodes: [
    { id: 1, host: '10.0.0.1' },
    { id: 2, http_url: 'http://node-two:4437', admin_port: 5000 },
    { id: 3, admin_url: 'https://[::1]:6000', name: 'third', instance_id: 'i-3', host: '' },
  ],
};

test('TOML, JSON, YAML and stdin hold the same; defaults follow from what is there', async () => {
  assert.deepEqual(await parseClusterFile('f', TOML, 'toml'), {
    label: 'f',
    nodes,
    restartCommand: 'ssh {host} restart',
  });
  assert.deepEqual((await parseClusterFile('f', JSON.stringify(WRITTEN), 'json')).nodes, nodes);
  const yaml = ['nodes:', '  - id: 1', '    host: 10.0.0.1', '  - id: 2', '    http_url: http://node-two:4437'];
  assert.deepEqual((await parseClusterFile('f', yaml.join('\n'), 'yaml')).nodes[0], nodes[0]);
  for (const text of [TOML, JSON.stringify(WRITTEN), `${yaml.join('\n')}\n`])
    assert.deepEqual((await parseClusterFile('stdin', text, undefined)).nodes[0], nodes[0]);
});

test('the extension determines the file type; none is JSON, any other is refused', async () => {
  assert.equal(formatOf('/a/cluster.toml'), 'toml');
  assert.equal(formatOf('a.YML'), 'yaml');
  assert.equal(formatOf('/etc/some.d/cluster'), 'json');
  assert.throws(() => formatOf('cluster.ini'), /ends in \.toml, \.json, \.yaml or \.yml$/);
  assert.deepEqual((await readClusterFile(scratchFile('c.toml', TOML), process)).nodes, nodes);
});

const BAD: readonly (readonly [string, RegExp])[] = [
  ['{', /^f is not valid JSON: /],
  ['[]', /^f: expected a table with a list "nodes"$/],
  ['{"node":[]}', /^f: expected a list "nodes" of \{ id, host or admin_url \}$/],
  ['{"nodes":[]}', /^f: the list "nodes" is empty$/],
  ['{"nodes":[1]}', /^f: nodes\[0\]: expected a table/],
  ['{"nodes":[{"host":"a"}]}', /^f: nodes\[0\]: expected an id from 1 to 4294967295, not none$/],
  ['{"nodes":[{"id":"1","host":"a"}]}', /expected an id from 1 to 4294967295, not "1"$/],
  ['{"nodes":[{"id":0,"host":"a"}]}', /expected an id from 1/],
  ['{"nodes":[{"id":1.5,"host":"a"}]}', /expected an id from 1/],
  ['{"nodes":[{"id":1}]}', /^f: nodes\[0\]: node 1 needs a host, an http_url or an admin_url$/],
  ['{"nodes":[{"id":1,"host":" "}]}', /needs a host/],
  ['{"nodes":[{"id":1,"host":7}]}', /expected host to be a string$/],
  ['{"nodes":[{"id":1,"host":"a b"}]}', /"a b" is not a host name$/],
  ['{"nodes":[{"id":1,"host":"a:4438"}]}', /"a:4438" is not a host name; its port is an admin_port of its own$/],
  ['{"nodes":[{"id":1,"host":"a","admin_port":0}]}', /expected an admin_port from 1 to 65535, not 0$/],
  ['{"nodes":[{"id":1,"admin_url":"10.0.0.1:4438"}]}', /expected admin_url to be an http:\/\/ or https:\/\/ address/],
  ['{"nodes":[{"id":1,"host":"a"},{"id":1,"host":"b"}]}', /^f: node 1 is listed twice$/],
  ['{"nodes":[{"id":1,"host":"a"},{"id":2,"host":"a"}]}', /^f: two nodes have the admin plane http:\/\/a:4438$/],
];

test('a wrong file is refused with one line that says where and what', async () => {
  for (const [text, expected] of BAD) {
    await assert.rejects(
      parseClusterFile('f', text, 'json'),
      (error: Error) => {
        assert.match(error.message, expected);
        assert(!error.message.includes('\n'), error.message);
        return true;
      },
      text,
    );
  }
  await assert.rejects(
    parseClusterFile('f', 'nodes = [', 'toml'),
    /^\S*Failure|Error: f is not valid TOML in line 1: [^\n]+$/,
  );
  await assert.rejects(parseClusterFile('f', 'nodes: [', 'yaml'), /f is not valid YAML: [^\n]+$/);
  await assert.rejects(parseClusterFile('f', 'just words', undefined), /f is not valid TOML in line 1: [^\n]+$/);
  await assert.rejects(
    readClusterFile('/nowhere/c.toml', process),
    /\/nowhere\/c\.toml cannot be read: there is no such file$/,
  );
});
