/** The server process: a shell around a node. Command line and environment in, exit codes and greeting out. */
import process from 'node:process';
import { ConfigError } from '../config/error.ts';
import { helpOrVersion, loadConfig } from '../config/load.ts';
import { ListenError } from '../http/listener.ts';
import { HttpLibraryError } from '../http/uws.ts';
import { NodeLog } from '../logging/logger.ts';
import { greeting } from './greeting.ts';
import { followHeapSize } from './heap-growth.ts';
import { NodeFailure, launch } from './launch.ts';
import {
  EXIT_CONFIG,
  EXIT_FAILURE,
  endOnBug,
  endOnFailure,
  endWhenFailed,
  onSignal,
  prepareProcess,
} from './process.ts';
import { Reloads } from './reload.ts';
import { PROCESS_RUNTIME } from './runtime.ts';

async function main(argv: readonly string[]): Promise<void> {
  const text = helpOrVersion(argv);
  if (text !== undefined) {
    process.stdout.write(text);
    return;
  }
  const config = loadConfig(argv);
  const nodeLog = NodeLog.open(process.env['MILLRACE_LOG'], process.env['MILLRACE_LOG_FILE']);
  const log = nodeLog.logger('server');
  const reloads = new Reloads(argv, config, nodeLog);
  process.on('SIGHUP', () => reloads.run());
  endOnBug(log);
  const node = await launch({ config, log: nodeLog, onFailure: endOnFailure(log) });
  endWhenFailed(node);
  process.stdout.write(greeting(config, node));
  reloads.begin(node.planes);
  followHeapSize({ runtime: PROCESS_RUNTIME, cachedBytes: () => node.cachedBytes() });
  onSignal(log, async () => {
    reloads.end();
    const threads = await node.stop();
    if (threads === 'hanging')
      log.warn('threads hang on a disk or a cold directory that does not answer, so the process kills itself');
    return threads;
  });
}

prepareProcess();
main(process.argv.slice(2)).catch((error: unknown) => {
  // The log has told it.
  if (error instanceof NodeFailure) process.exit(EXIT_FAILURE);
  const known = [ConfigError, ListenError, HttpLibraryError].some((kind) => error instanceof kind);
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  process.stderr.write(`millrace: ${known ? message : (stack ?? message)}\n`);
  process.exit(known ? EXIT_CONFIG : EXIT_FAILURE);
});
