import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import sharp from 'sharp'
import { soundFile } from '../shared/providers/sandbox/media/sounds.ts'
import { videoFile } from '../shared/providers/sandbox/media/video-file.ts'
import { upload } from './client.ts'

/** Files to refer to: your own, named on the command line, or made-up ones. Real models want a real face and voice. */

const made = {
  'face.png': () =>
    sharp({ create: { width: 512, height: 512, channels: 3, background: 'gray' } })
      .png()
      .toBuffer(),
  'clip.mp4': () => videoFile({ seconds: 3 }),
  'speech.wav': async () => soundFile('wav', 2.5),
}

/** The address of an uploaded file: the argument at this position, or else the sample. */
export async function sample(name: keyof typeof made, argument: string | undefined): Promise<string> {
  if (argument === undefined) return upload(await made[name](), name)
  return upload(await readFile(argument), basename(argument))
}
