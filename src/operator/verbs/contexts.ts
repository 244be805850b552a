/** Clusters by name. */
import { ADDRESS, CA_FILE, CERT_FILE, CLIENT_TOKEN_FILE, CONFIG, TOKEN_FILE, type Verb, textFlag } from '../context.ts';
import { readClusterFile } from '../../nodes/cluster-file.ts';
import { CONTEXT_FLAGS, Contexts } from '../contexts.ts';
import { UsageError } from '../../nodes/failure.ts';
import { OUTPUT, formatTable, wantsJson } from '../output.ts';

const NAME = textFlag('NAME', 'of the context', { required: true });
const { required: _required, env: _env, ...FILE } = CONFIG;
const { env: _urlEnv, ...URL_FLAG } = ADDRESS;

export const contextAdd: Verb = {
  name: 'context add',
  about: 'remember a cluster by name; the first one is used at once',
  words: ['name', 'config'],
  examples: [
    'millracectl context add prod /etc/millrace/cluster.toml --token-file /etc/millrace/admin-token',
    'millracectl context add here --url http://127.0.0.1:4437',
  ],
  flags: {
    name: NAME,
    config: { ...FILE, about: 'cluster file' },
    url: URL_FLAG,
    'token-file': TOKEN_FILE,
    'client-token-file': CLIENT_TOKEN_FILE,
    'ca-file': textFlag('FILE', CA_FILE.about),
    'cert-file': textFlag('FILE', CERT_FILE.about),
  },
  run: async ({ values, env, stdin, say }) => {
    const given = CONTEXT_FLAGS.flatMap((flag): [string, string][] => {
      const value = values.text(flag);
      return value === undefined ? [] : [[flag, value]];
    });
    const flags = new Map(given);
    const file = flags.get('config');
    if (file === undefined && !flags.has('url'))
      throw new UsageError('context add needs a cluster file or --url; see context add --help');
    if (file === '-') throw new UsageError('context add: a cluster file on stdin cannot be remembered');
    // A slip is told now, not at the first use.
    if (file !== undefined) await readClusterFile(file, { stdin });
    const contexts = Contexts.read(env);
    const name = values.required('name');
    contexts.add(name, flags);
    say(`context ${name}: added${contexts.current === name ? ' and in use' : ''}`);
  },
};

export const contextUse: Verb = {
  name: 'context use',
  about: 'use a context where a command names no cluster',
  words: ['name'],
  examples: ['millracectl context use prod'],
  flags: { name: NAME },
  run: ({ values, env, say }) => {
    const name = values.required('name');
    Contexts.read(env).use(name);
    say(`context ${name}: in use`);
    return Promise.resolve();
  },
};

export const contextLs: Verb = {
  name: 'context ls',
  about: 'list the contexts; * marks the one in use',
  examples: ['millracectl context ls'],
  flags: { ...OUTPUT },
  run: ({ values, env, say }) => {
    const contexts = Contexts.read(env);
    const all = contexts.names.map((name) => ({
      name,
      current: contexts.current === name,
      ...Object.fromEntries(contexts.get(name)),
    }));
    if (wantsJson(values)) say(JSON.stringify(all));
    else {
      const rows = all.map(({ name, current }) => {
        const flags = contexts.get(name);
        return [current ? '*' : '', name, flags.get('config') ?? '', flags.get('url') ?? ''];
      });
      for (const line of formatTable([{ head: '' }, { head: 'name' }, { head: 'cluster file' }, { head: 'url' }], rows))
        say(line);
    }
    return Promise.resolve();
  },
};

export const contextRm: Verb = {
  name: 'context rm',
  about: 'forget a context',
  words: ['name'],
  examples: ['millracectl context rm prod'],
  flags: { name: NAME },
  run: ({ values, env, say }) => {
    const name = values.required('name');
    Contexts.read(env).remove(name);
    say(`context ${name}: removed`);
    return Promise.resolve();
  },
};
