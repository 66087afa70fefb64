// What the microphone hears, as 24 kHz PCM16, in pieces of a twentieth of a second. Runs on the browser's audio thread.
const rate = 24_000
const pieceSamples = rate / 20

class Microphone extends AudioWorkletProcessor {
  #piece = new Int16Array(pieceSamples)
  #filled = 0
  /** Where the next sample lies, in samples of this context from the beginning of the next block. */
  #position = 0
  #last = 0

  process([[samples]]) {
    if (!samples) return true
    const step = sampleRate / rate
    for (; this.#position < samples.length; this.#position += step) this.#take(this.#between(samples))
    this.#position -= samples.length
    this.#last = samples[samples.length - 1]
    return true
  }

  #between(samples) {
    const index = Math.floor(this.#position)
    const before = index === 0 ? this.#last : samples[index - 1]
    return before + (samples[index] - before) * (this.#position - index)
  }

  #take(sample) {
    this.#piece[this.#filled++] = Math.max(-1, Math.min(1, sample)) * 32_767
    if (this.#filled < pieceSamples) return
    this.port.postMessage(this.#piece.buffer, [this.#piece.buffer])
    this.#piece = new Int16Array(pieceSamples)
    this.#filled = 0
  }
}

registerProcessor('microphone', Microphone)
