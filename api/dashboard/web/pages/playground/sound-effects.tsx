import { SoundTab } from './sound.tsx'

export default function SoundEffectsTab() {
  return <SoundTab type="sfx" example="A door that creaks" minSeconds={0.1} maxSeconds={60} />
}
