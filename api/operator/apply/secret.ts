import { last4Of } from '../provider-keys.ts'

/** A secret of a file: it is shown by its end alone, also in JSON. */
export class Secret {
  readonly value: string

  constructor(value: string) {
    this.value = value
  }

  toString(): string {
    return `…${last4Of(this.value)}`
  }

  toJSON(): string {
    return this.toString()
  }
}
