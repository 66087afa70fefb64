const headerBytes = 44

/**
 * Creates the header of a WAV file with mono 16-bit samples. `dataBytes` null = the length is not known yet: the sizes
 * are then the maximum, which players interpret as "to the end".
 */
export function waveHeader(sampleRateHz: number, dataBytes: number | null): Buffer {
  const unknown = 0xffff_ffff
  const header = Buffer.alloc(headerBytes)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(dataBytes === null ? unknown : headerBytes - 8 + dataBytes, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRateHz, 24)
  header.writeUInt32LE(sampleRateHz * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(dataBytes ?? unknown, 40)
  return header
}
