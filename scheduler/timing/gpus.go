package timing

import "github.com/replay-llm/replay/scheduler/hardware"

// GPUs returns the GPUs of a worker whose pass times come from a path: those that data
// sheets were asked for, or that a profile was fitted to; 1 where nothing says it. price is
// that of one of them for an hour by default, 0 where there is none.
func GPUs(path string) (count int, price float64, err error) {
	if name, ok := CutFit(path); ok {
		f, err := hardware.ParseFit(name)
		return f.GPUs(), f.GPU.Price, err
	}
	if !HoldsProfile(path) {
		return 1, 0, nil
	}
	p, err := LoadProfile(path)
	if err != nil || p.Engine == nil {
		return 1, 0, err
	}
	gpu, err := hardware.FindGPU(p.Engine.GPU, nil)
	if err != nil {
		gpu.Price = 0 // it is none of the tables'
	}
	return max(1, p.Engine.TensorParallel), gpu.Price, nil
}

// GPUName returns the name of the GPUs of such a worker, "" where nothing says it.
func GPUName(path string) string {
	if name, ok := CutFit(path); ok {
		f, err := hardware.ParseFit(name)
		if err != nil {
			return ""
		}
		return f.GPU.Name
	}
	if !HoldsProfile(path) {
		return ""
	}
	p, err := LoadProfile(path)
	if err != nil || p.Engine == nil {
		return ""
	}
	return p.Engine.GPU
}
