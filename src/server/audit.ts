/** The audit log of a node, from its configuration. */
import { AuditLog } from '../audit/audit-log.ts';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import type { Host } from './host.ts';

/** Throws ConfigError when its file cannot be opened. */
export function openAudit({ audit: { file }, raft }: Config, host: Host): AuditLog {
  const log = host.log.logger('audit');
  const isSilent = host.log.threads.verbosity.components.get('audit') === 'silent';
  const toLog = (line: string): void => (isSilent ? undefined : host.log.write(line));
  const troubled = (error: unknown): void => {
    if (error === undefined) log.info({ file }, 'the audit log is written again');
    else log.error({ err: error, file }, 'the audit log cannot be written: its lines wait, and are lost beyond 1 MiB');
  };
  try {
    return new AuditLog({ ...{ node: raft.nodeId, runtime: host.runtime, file }, toLog, troubled });
  } catch (error) {
    throw new ConfigError(`audit.file: ${file} cannot be opened (${String(error)})`);
  }
}
