// Stand-ins for the services behind the planes, which do next what a test says.
import { ERRORS, type ErrorCode, MillraceError } from '../../src/base/errors.ts';
import type { Backups } from '../../src/backup/ports.ts';
import type { ControlAnswer, ControlPort, WebhookKeys } from '../../src/subscriptions/ports.ts';
import { Refusal, refusalAnswer } from '../../src/subscriptions/service/api-refusal.ts';
import { SCHEMAS } from '../../scripts/openapi/schemas.ts';
import { exampleOf } from '../support/examples.ts';

/** Their next actions. */
export interface Behind {
  control: ControlAnswer | Error;
  keys: string | Error | undefined;
  backup: ErrorCode | 'answer' | 'conflict';
}

export function standInsOf(behind: Behind): {
  readonly control: ControlPort;
  readonly webhookKeys: WebhookKeys;
  readonly backups: Backups;
} {
  return { control: controlOf(behind), webhookKeys: keysOf(behind), backups: backupsOf(behind) };
}

function controlOf(behind: Behind): ControlPort {
  const refusal = (error: unknown): ControlAnswer | undefined => {
    if (error instanceof Refusal) return refusalAnswer(error);
    if (!(error instanceof MillraceError)) return undefined;
    const { flat: status, retry, text } = ERRORS[error.code];
    return { status, retry, json: { error: { code: error.code, message: text } } };
  };
  const run = async (): Promise<ControlAnswer> => {
    const { control } = behind;
    if (control instanceof Error) throw control;
    return await Promise.resolve(control);
  };
  return { open: () => ({ run }), refusal };
}

function keysOf(behind: Behind): WebhookKeys {
  const answer = async (): Promise<unknown> => {
    const { keys } = behind;
    if (keys instanceof Error) throw keys;
    return await Promise.resolve(keys ?? { kid: null, keys: [] });
  };
  return { show: answer, rotate: answer };
}

function backupsOf(behind: Behind): Backups {
  return {
    lineage: { cluster_id: null, restored_from: [] },
    exports: {},
    coldGraces: undefined,
    exportGroup: (_, sink) => {
      const { backup } = behind;
      if (backup !== 'answer' && backup !== 'conflict') return sink.fail(backup);
      sink.begin(1, 'digest');
      return sink.end();
    },
    importGroup: (_, _wanted, sink) => {
      const end = (): void => {
        const { backup } = behind;
        if (backup === 'answer') sink.json(200, exampleOf(SCHEMAS.Imported));
        else if (backup === 'conflict') sink.json(409, exampleOf(SCHEMAS.ImportConflict));
        else sink.fail(backup);
      };
      return { push: () => undefined, end, abort: () => undefined };
    },
  };
}
