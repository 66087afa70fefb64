import { SoundTab } from './sound.tsx'

export default function MusicTab() {
  return <SoundTab type="music" example="A calm piano piece" minSeconds={1} maxSeconds={600} />
}
