// Executes the steps of a session with curl: statuses, outputs, and variables that later steps use.
import assert from 'node:assert/strict';
import { run, within } from '../support/server.ts';
import { type Step, keepsPromise } from './shell-block.ts';
import { PATIENCE_MS } from '../support/until.ts';

/** Curl repeats what is answered with 429 or a 5xx, as clients do, and waits as Retry-After says. */
const PATIENT = '--retry 20';

/** Lines of the tool on stderr: on a busy machine a group may be between two leaders. */
const WAITING = /^waiting: .*\n/gm;

function flagsFor({ status }: Step): string {
  if (status === undefined) return `-fsS ${PATIENT}`;
  const isFinal = status < 500 && status !== 429;
  return `-sS -o /dev/null -w '%{http_code}' ${isFinal ? PATIENT : ''}`;
}

export class Session {
  readonly #env: Record<string, string> = {};
  readonly #localize: (command: string) => string;

  /** `localize` changes what is a thing of the machine: ports, folders. */
  constructor(localize: (command: string) => string = (command) => command) {
    this.#localize = localize;
  }

  /** A step of the kinds `ask` and `variable`. */
  async execute(step: Step): Promise<void> {
    if (step.kind === 'variable') return await this.#assign(step.command);
    const output = await this.#output(step.command.replace(/^curl\b/, `curl ${flagsFor(step)}`), step.command);
    if (step.status !== undefined) assert.equal(Number(output.trim()), step.status, step.command);
    if (step.output !== undefined) assert(keepsPromise(output, step.output), `${step.command} prints\n${output}`);
  }

  async #assign(command: string): Promise<void> {
    const name = command.slice(0, command.indexOf('='));
    this.#env[name] = await this.#output(`${command}; printf %s "$${name}"`, command);
    assert.notEqual(this.#env[name], '', command);
  }

  async #output(command: string, shown: string): Promise<string> {
    const attempt = run(['sh', '-c', this.#localize(command)], this.#env);
    const code = await within(attempt.exited, PATIENCE_MS, shown);
    assert.equal(code, 0, `${shown}: exit code ${code}\n${attempt.output()}`);
    return attempt.output().replaceAll(WAITING, '');
  }
}
