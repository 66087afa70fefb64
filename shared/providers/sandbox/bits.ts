const firstBytes = 4_096

/** Writes bits, the most significant first; also the variable-length codes of H.264 (ITU-T H.264, 9.1). */
export class BitWriter {
  #bytes = new Uint8Array(firstBytes)
  #length = 0
  #pending = 0
  #pendingBits = 0

  /** The lowest `count` bits of `value`; at most 24. */
  bits(value: number, count: number): this {
    this.#pending = (this.#pending << count) | value
    this.#pendingBits += count
    while (this.#pendingBits >= 8) {
      this.#pendingBits -= 8
      this.#push(this.#pending >>> this.#pendingBits)
      this.#pending &= (1 << this.#pendingBits) - 1
    }
    return this
  }

  /** Unsigned Exp-Golomb code, `ue(v)`. */
  unsigned(value: number): this {
    const bits = 32 - Math.clz32(value + 1)
    return this.bits(0, bits - 1).bits(value + 1, bits)
  }

  /** Zero bits up to the next whole byte. */
  align(): this {
    return this.#pendingBits === 0 ? this : this.bits(0, 8 - this.#pendingBits)
  }

  /** Whole bytes; only where the position is one. */
  bytes(value: Uint8Array): this {
    for (const byte of value) this.#push(byte)
    return this
  }

  /** Everything written, ended by a one and zeros up to a whole byte (7.3.2.11). */
  end(): Uint8Array {
    return this.bits(1, 1).written()
  }

  /** Everything written, with zeros up to a whole byte. */
  written(): Uint8Array {
    this.align()
    return this.#bytes.subarray(0, this.#length)
  }

  #push(byte: number): void {
    if (this.#length === this.#bytes.length) {
      const longer = new Uint8Array(this.#length * 2)
      longer.set(this.#bytes)
      this.#bytes = longer
    }
    this.#bytes[this.#length++] = byte
  }
}
