import { randomBytes } from 'node:crypto';
import { type Address, formatAddress, parseAddress } from '../../base/address.ts';
import { readConsolePage } from '../../console/built-page.ts';
import { ConsoleServer } from '../console/server.ts';
import { CONFIG, type Verb, asking, openCluster } from '../context.ts';
import { Failure, UsageError } from '../failure.ts';

const LISTEN = '127.0.0.1:4480';
const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|localhost)$/;
const KEY_BYTES = 24;

export const consoleVerb: Verb = {
  name: 'console',
  about: 'serve a web page about the whole cluster on this host, until Ctrl-C',
  examples: ['millracectl console --config /etc/millrace/cluster.toml', 'millracectl console --listen 127.0.0.1:8080'],
  flags: {
    config: CONFIG,
    listen: { kind: 'text', value: 'HOST:PORT', about: `where, on the loopback of this host (${LISTEN})` },
    ...asking(),
  },
  run: async (context) => {
    const { values, signal, say } = context;
    const address = addressOf(values.text('listen') ?? LISTEN);
    const cluster = await openCluster(context);
    const page = readConsolePage('cluster');
    if (page === undefined) throw new Failure('this installation was made without the page; run "npm run build" in it');
    // Anyone with the address has the tool's rights: other users of this host must not guess it.
    const key = randomBytes(KEY_BYTES).toString('base64url');
    const { file, options: client } = cluster;
    const server = new ConsoleServer({ label: file.label, nodes: file.nodes, page, client, key });
    const taken = await server.listen(address);
    say(
      `console of ${file.nodes.length} node${file.nodes.length === 1 ? '' : 's'}: http://${formatAddress(taken)}/#key=${key}`,
    );
    await ended(signal);
    await server.close();
  },
};

function addressOf(written: string): Address {
  const address = parseAddress(written);
  if (address === undefined) throw new UsageError(`--listen ${written}: expected HOST:PORT, such as ${LISTEN}`);
  if (LOOPBACK.test(address.host)) return address;
  throw new UsageError(
    `--listen ${written}: the console speaks plain HTTP and listens on loopback only; from elsewhere reach it with ssh -L`,
  );
}

function ended(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
